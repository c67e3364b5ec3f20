"""A cluster that asks for a login over TLS: `KAFKA_SECURITY_PROTOCOL`, `KAFKA_SASL_*`, `KAFKA_SSL_*` (contract)."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from streams.cli.failure import EXIT_FAILED
from streams.limits import MINUTE_MS
from streams.settings import EXIT_WRONG_SETTING, Settings
from tests.support.http_get import get
from tests.support.secured import PASSWORD, USER, SecuredKafkaServer
from tests.support.workers import Installation, Sent, Worker
from tests.unit.cli.obol import obol
from tools.leftovers import session_folder
from tools.server import free_ports
from topics.login import Refusal, why_refused

if TYPE_CHECKING:
    from collections.abc import Iterator

PROFILE = "dedicated.h100.1x"
TOKEN = "token-0123456789abcdef"  # noqa: S105 - of a test
BASIC_TOKEN = base64.b64encode(f"anyone:{TOKEN}".encode()).decode()
REDIS_PASSWORD = "redis-s3cret"  # noqa: S105 - of a Redis that is not there

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker() -> Iterator[SecuredKafkaServer]:
    server = SecuredKafkaServer(session_folder() / "secured", free_ports(SecuredKafkaServer.neighbouring_ports))
    server.start()
    yield server
    server.remove()


def login(broker: SecuredKafkaServer, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "KAFKA_BOOTSTRAP_SERVERS": broker.with_password,
        "CROESUS_HOST": broker.with_password,
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_SASL_MECHANISM": mechanism,
        "KAFKA_SASL_USERNAME": USER,
        "KAFKA_SASL_PASSWORD": password,
        "KAFKA_SSL_CAFILE": str(broker.certificate),
    }


def certificate(broker: SecuredKafkaServer) -> dict[str, str]:
    return {
        "KAFKA_BOOTSTRAP_SERVERS": broker.with_certificate,
        "CROESUS_HOST": broker.with_certificate,
        "KAFKA_SECURITY_PROTOCOL": "SSL",
        "KAFKA_SSL_CAFILE": str(broker.certificate),
        "KAFKA_SSL_CERTFILE": str(broker.client_certificate),
        "KAFKA_SSL_PASSWORD": PASSWORD,
    }


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-512", "certificate"])
async def test_a_minute_is_billed_and_explained(broker: SecuredKafkaServer, way: str) -> None:
    environ = certificate(broker) if way == "certificate" else login(broker, way)
    installation = Installation(broker.address(broker.port), f"secured-{way.lower()}", partitions=2)
    start = (int(time.time() * 1_000) // MINUTE_MS - 60) * MINUTE_MS

    def at(topic: str, minutes: int, key: str, **value: object) -> Sent:
        place = installation.place(topic, "acme")
        return Sent(topic, start + minutes * MINUTE_MS, key.encode(), json.dumps(value).encode(), place)

    create = {"type": "create_deployment", "deployment_id": "chat", "model": "m", "gpu_type": "h100", "gpu_count": 1}
    healthy = {"event_id": "e1", "replica_id": "chat-r1", "status": "RUNNING", "message": "healthy"}
    # The worker starts first: it also creates the topics with its login.
    secrets = {"OBOL_HTTP_TOKEN": TOKEN, "REDIS_URL": f"redis://:{REDIS_PASSWORD}@127.0.0.1:1/0"}
    with Worker(installation, "-l", "debug", **environ, **secrets) as worker:
        await asyncio.to_thread(worker.wait_for, "are active")
        await installation.send(
            [
                at("croesus.prices", 0, PROFILE, profile=PROFILE, price="60", currency="JPY"),
                at("user.commands", 1, "acme", command_id="c1", org_id="acme", **create),
                at("execlet.progress", 2, "acme", org_id="acme", **healthy),
                at("obol.clock", 3, "", type="tick"),
            ],
            transactional_id=f"the-test-{way}",
        )
        await installation.wait_until_caught_up([worker])
        (usage,) = [json.loads(record.value or b"") for record in await installation.read("croesus.usage")]
        assert (usage["replica_id"], usage["duration_ms"]) == ("chat-r1", MINUTE_MS)
        asked = f"{worker.url}/orgs/acme/explain/{usage['id']}"
        authorized = {"Accept": "application/json", "Authorization": f"Bearer {TOKEN}"}
        explained = (await asyncio.to_thread(partial(get, asked, 30, **authorized))).json
        # The view reads it from Kafka with the worker's login.
        assert (explained["usage"]["topic"], explained["usage"]["offset"]) == ("croesus.usage", 0)
        await asyncio.to_thread(send_broken_header, worker)
        assert await asyncio.to_thread(worker.stop) == 0
        log = worker.log.read_text(errors="replace")
        # The libraries' lines of this level are logged, without secrets.
        assert "Invalid header value char" in log
        assert way == "certificate" or "SaslAuthenticateRequest" in log
        for secret in (PASSWORD, TOKEN, REDIS_PASSWORD, BASIC_TOKEN[4:-4]):
            assert secret not in log


def send_broken_header(worker: Worker) -> None:
    """Send the token in headers that no server can parse: it quotes them in its log."""
    for header in (f"Bearer {TOKEN}", f"Basic {BASIC_TOKEN}"):
        with socket.create_connection(("127.0.0.1", worker.port)) as client:
            client.sendall(f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: {header}\x01\r\n\r\n".encode())
            assert client.recv(100)


async def refusal(broker: SecuredKafkaServer, environ: dict[str, str]) -> Refusal | None:
    installation = Installation(broker.address(broker.port), "secured")
    given = {name: value for name, value in (installation.environment | environ).items() if value}
    return await why_refused(Settings.from_env(given).kafka_client_options())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"KAFKA_SASL_PASSWORD": "guessed"}, "refuses the login of obol (Authentication failed: Invalid username or"),
        (
            {"KAFKA_SASL_MECHANISM": "SCRAM-SHA-256"},
            "does not support SASL SCRAM-SHA-256 on this listener; correct KAFKA_SASL_MECHANISM or",
        ),
        ({"KAFKA_SSL_CAFILE": ""}, "set KAFKA_SSL_CAFILE to the certificate authority that signed it"),
    ],
    ids=["password", "mechanism", "authority"],
)
async def test_a_wrong_login_is_diagnosed(broker: SecuredKafkaServer, wrong: dict[str, str], words: str) -> None:
    why = await refusal(broker, login(broker, "PLAIN") | wrong)
    assert why is not None
    assert why.is_final
    assert broker.with_password in why.message
    assert words in why.message


async def test_a_missing_client_certificate_is_diagnosed(broker: SecuredKafkaServer) -> None:
    why = await refusal(broker, certificate(broker) | {"KAFKA_SSL_CERTFILE": "", "KAFKA_SSL_PASSWORD": ""})
    assert why is not None
    assert why.is_final
    # The alert's name differs from Java to Java.
    assert re.search(r"the TLS handshake with .* failed \(.*CERTIFICATE.*\); correct KAFKA_SSL_CERTFILE", why.message)


async def test_a_host_name_mismatch_is_diagnosed(broker: SecuredKafkaServer) -> None:
    by_name = broker.with_certificate.replace("127.0.0.1", "localhost")
    named = {"KAFKA_BOOTSTRAP_SERVERS": by_name, "CROESUS_HOST": by_name}
    why = await refusal(broker, certificate(broker) | named)
    assert why is not None
    assert why.is_final
    assert f"the certificate of {by_name} is not trusted (Hostname mismatch" in why.message
    assert "or set KAFKA_SSL_CHECK_HOSTNAME=0" in why.message
    assert await refusal(broker, certificate(broker) | named | {"KAFKA_SSL_CHECK_HOSTNAME": "0"}) is None


@pytest.mark.parametrize("given", ["PLAINTEXT", "SSL"])
async def test_a_connection_without_login_is_closed_and_may_be_retried(broker: SecuredKafkaServer, given: str) -> None:
    environ = {"KAFKA_BOOTSTRAP_SERVERS": broker.with_password, "CROESUS_HOST": broker.with_password}
    environ["KAFKA_SECURITY_PROTOCOL"] = given
    if given == "SSL":
        environ["KAFKA_SSL_CAFILE"] = str(broker.certificate)
    why = await refusal(broker, environ)
    # The broker may only be starting, so a worker retries.
    assert why == Refusal(
        f"{broker.with_password} closed the connection without an error; "
        f"check KAFKA_SECURITY_PROTOCOL, which is {given}",
        is_final=False,
    )


async def test_tls_on_a_plaintext_listener_is_diagnosed(broker: SecuredKafkaServer) -> None:
    plain = broker.address(broker.port)
    environ = {"KAFKA_BOOTSTRAP_SERVERS": plain, "CROESUS_HOST": plain, "KAFKA_SECURITY_PROTOCOL": "SSL"}
    why = await refusal(broker, environ)
    assert why is not None
    assert not why.is_final
    assert f"{plain} closed the connection without an error" in why.message


async def test_a_correct_login_is_not_refused(broker: SecuredKafkaServer) -> None:
    assert await refusal(broker, login(broker, "PLAIN")) is None
    assert await refusal(broker, certificate(broker)) is None
    assert await refusal(broker, {}) is None


def test_a_refused_worker_ends_at_once_with_one_line(broker: SecuredKafkaServer) -> None:
    installation = Installation(broker.address(broker.port), "secured-wrong", partitions=2)
    with Worker(installation, **login(broker, "PLAIN", "guessed")) as worker:
        assert worker.wait() == EXIT_WRONG_SETTING
        (line,) = [line for line in worker.tail(100).splitlines() if "refuses the login of obol" in line]
        assert "correct KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD" in line


async def test_the_command_line_logs_in_too(
    broker: SecuredKafkaServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installation = Installation(broker.address(broker.port), "secured-by-hand", partitions=2)
    for name, value in (installation.environment | login(broker, "PLAIN")).items():
        monkeypatch.setenv(name, value)
    made = await asyncio.to_thread(obol, capsys, "topics", "create")
    assert (made.code, made.err) == (0, "")
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", "guessed")
    refused = await asyncio.to_thread(obol, capsys, "topics", "list")
    assert refused.code == EXIT_FAILED
    assert f"{broker.with_password} refuses the login of obol" in refused.err
