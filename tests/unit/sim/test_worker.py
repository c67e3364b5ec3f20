"""The demo's worker: what is shown of its log when it ends."""

import socket

from sim.worker import HOST, PORTS, free_port, last_words

STOPPING = ["[t] [1] [INFO] [^Worker]: Stopping...", "[t] [1] [INFO] [^Worker]: Closing event loop"]


def test_the_last_error_with_its_lines() -> None:
    log = [
        "[t] [1] [ERROR] first",
        "[t] [1] [INFO] on",
        "[t] [1] [ERROR] second",
        "Traceback",
        "ValueError: x",
        *STOPPING,
    ]
    assert last_words("\n".join(log)) == ["[t] [1] [ERROR] second", "Traceback", "ValueError: x"]


def test_of_a_long_error_the_end() -> None:
    log = ["[t] [1] [CRITICAL] it", *(f"line {n}" for n in range(40)), *STOPPING]
    assert last_words("\n".join(log)) == [f"line {n}" for n in range(25, 40)]


def test_without_an_error_the_end() -> None:
    assert last_words("OBOL_PARTITIONS is 'x'; set it to a whole number") == [
        "OBOL_PARTITIONS is 'x'; set it to a whole number"
    ]
    assert last_words("") == []


def test_a_taken_port_is_left_alone() -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((HOST, PORTS[0]))
            taken.listen()
        except OSError:
            pass  # taken by someone else: just as good
        port = free_port()
    assert port in PORTS[1:]
