"""Diagnose a refused connection. aiokafka's clients only log the cause; they raise a general connection error."""

import asyncio
import ssl
from typing import Any, Final, NamedTuple

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import IllegalSaslStateError, KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanismError
from aiokafka.protocol.metadata import MetadataRequest

_TIMEOUT_MS: Final = 5_000
_CLOSING_S: Final = 0.5

# OpenSSL's X509_V_ERR_… codes, which are the values of `SSLCertVerificationError.verify_code`.
_HAS_EXPIRED: Final = 10
_HOSTNAME_MISMATCH: Final = frozenset((62, 64))


class Refusal(NamedTuple):
    """Why a broker refuses the connection. `message`: one line, with the fix. `is_final`: a retry can't succeed."""

    message: str
    is_final: bool


async def why_refused(client_options: dict[str, Any]) -> Refusal | None:
    """Try each bootstrap server. Returns None when one accepts the connection or none can be reached.

    `client_options`: bootstrap servers and security settings, as aiokafka's clients take them.
    """
    options = dict(client_options)
    refusals = []
    for server in options.pop("bootstrap_servers"):
        try:
            refusal = await _probe(server, options)
        except (OSError, TimeoutError):
            continue
        if refusal is None:
            return None
        refusals.append(refusal)
    return max(refusals, key=lambda refusal: refusal.is_final, default=None)


async def _probe(server: str, options: dict[str, Any]) -> Refusal | None:
    """Connect, log in and send a request; None when all succeed. Raises `OSError` when the server can't be reached.

    The request matters: a broker that requires a login closes an anonymous connection only when it receives one.
    """
    host, _, port = server.rpartition(":")
    connection = AIOKafkaConnection(host.strip("[]"), int(port), request_timeout_ms=_TIMEOUT_MS, **options)
    refusal = await _connect(connection, server, options)
    # The socket closes asynchronously, and after a failed TLS handshake the future of `close` never completes.
    await asyncio.wait([connection.close()], timeout=_CLOSING_S)
    return refusal


async def _connect(connection: Any, server: str, options: dict[str, Any]) -> Refusal | None:
    try:
        await connection.connect()
        await connection.send(MetadataRequest([]))
    except SaslAuthenticationFailed as error:
        user, reason = options.get("sasl_plain_username"), error.args[0] if error.args else "no reason given"
        fix = "correct KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD"
        return Refusal(f"{server} refuses the login of {user} ({reason}); {fix}", is_final=True)
    except (UnsupportedSaslMechanismError, IllegalSaslStateError):
        mechanism = options.get("sasl_mechanism")
        fix = "correct KAFKA_SASL_MECHANISM or KAFKA_SECURITY_PROTOCOL"
        return Refusal(f"{server} does not support SASL {mechanism} on this listener; {fix}", is_final=True)
    except ssl.SSLError as error:
        return _tls(server, error)
    except (KafkaError, ConnectionResetError, ConnectionAbortedError) as error:
        if isinstance(error.__cause__, ssl.SSLError):
            return _tls(server, error.__cause__)
        protocol = options.get("security_protocol")
        message = f"{server} closed the connection without an error; check KAFKA_SECURITY_PROTOCOL, which is {protocol}"
        return Refusal(message, is_final=False)
    return None


def _tls(server: str, error: ssl.SSLError) -> Refusal:
    if not isinstance(error, ssl.SSLCertVerificationError):
        fix = "correct KAFKA_SSL_CERTFILE or KAFKA_SECURITY_PROTOCOL"
        return Refusal(f"the TLS handshake with {server} failed ({error.reason}); {fix}", is_final=True)
    if error.verify_code in _HOSTNAME_MISMATCH:
        fix = "use the certificate's host name in KAFKA_BOOTSTRAP_SERVERS, or set KAFKA_SSL_CHECK_HOSTNAME=0"
    elif error.verify_code == _HAS_EXPIRED:
        fix = "renew it at the broker"
    else:
        fix = "set KAFKA_SSL_CAFILE to the certificate authority that signed it"
    return Refusal(f"the certificate of {server} is not trusted ({error.verify_message}); {fix}", is_final=True)
