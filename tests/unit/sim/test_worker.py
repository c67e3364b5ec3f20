"""The demo's worker: the lines of its log that are shown when it exits, and its port."""

import socket

from sim.worker import HOST, PORTS, error_lines, free_port

STOPPING = ["[t] [1] [INFO] [^Worker]: Stopping...", "[t] [1] [INFO] [^Worker]: Closing event loop"]


def test_the_lines_of_the_last_error() -> None:
    log = [
        "[t] [1] [ERROR] first",
        "[t] [1] [INFO] on",
        "[t] [1] [ERROR] second",
        "Traceback",
        "ValueError: x",
        *STOPPING,
    ]
    assert error_lines("\n".join(log)) == ["[t] [1] [ERROR] second", "Traceback", "ValueError: x"]


def test_the_last_lines_of_a_long_error() -> None:
    log = ["[t] [1] [CRITICAL] it", *(f"line {n}" for n in range(40)), *STOPPING]
    assert error_lines("\n".join(log)) == [f"line {n}" for n in range(25, 40)]


def test_the_last_lines_without_an_error() -> None:
    assert error_lines("OBOL_PARTITIONS is 'x'; set it to a whole number") == [
        "OBOL_PARTITIONS is 'x'; set it to a whole number"
    ]
    assert error_lines("") == []


def test_a_port_in_use_is_skipped() -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((HOST, PORTS[0]))
            taken.listen()
        except OSError:
            pass  # in use by another program, which serves the test as well
        port = free_port()
    assert port in PORTS[1:]
