"""Why a cluster turns us away: aiokafka's clients log it, but what they raise only says that they can't connect."""

import asyncio
import ssl
from typing import Any, Final, NamedTuple

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import IllegalSaslStateError, KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanismError
from aiokafka.protocol.metadata import MetadataRequest

_TIMEOUT_MS: Final = 5_000
_CLOSING_S: Final = 0.5

# OpenSSL's X509_V_ERR_…, as `SSLCertVerificationError.verify_code` has them.
_HAS_EXPIRED: Final = 10
_ANOTHER_NAME: Final = frozenset((62, 64))


class Refusal(NamedTuple):
    """What is wrong, with the mend, in a line. `is_certain`: asking again would be of no use."""

    words: str
    is_certain: bool


async def why_refused(client_options: dict[str, Any]) -> Refusal | None:
    """Knock at each bootstrap server; None where one lets us in, or none answers.

    `client_options` are the address and security that aiokafka's clients take.
    """
    options = dict(client_options)
    refusals = []
    for server in options.pop("bootstrap_servers"):
        try:
            refusal = await _knock(server, options)
        except (OSError, TimeoutError):
            continue
        if refusal is None:
            return None
        refusals.append(refusal)
    return max(refusals, key=lambda refusal: refusal.is_certain, default=None)


async def _knock(server: str, options: dict[str, Any]) -> Refusal | None:
    """Log in and ask for something, which is when a broker that wants a login hangs up. `OSError`: nobody is there."""
    host, _, port = server.rpartition(":")
    connection = AIOKafkaConnection(host.strip("[]"), int(port), request_timeout_ms=_TIMEOUT_MS, **options)
    refusal = await _ask(connection, server, options)
    # The socket closes a little later; where TLS was not agreed on, nobody tells when.
    await asyncio.wait([connection.close()], timeout=_CLOSING_S)
    return refusal


async def _ask(connection: Any, server: str, options: dict[str, Any]) -> Refusal | None:
    try:
        await connection.connect()
        await connection.send(MetadataRequest([]))
    except SaslAuthenticationFailed as error:
        user, told = options.get("sasl_plain_username"), error.args[0] if error.args else "no reason given"
        mend = "correct KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD"
        return Refusal(f"{server} refuses the login of {user} ({told}); {mend}", is_certain=True)
    except (UnsupportedSaslMechanismError, IllegalSaslStateError):
        mend = "correct KAFKA_SASL_MECHANISM or KAFKA_SECURITY_PROTOCOL"
        return Refusal(f"{server} takes no login by {options.get('sasl_mechanism')}; {mend}", is_certain=True)
    except ssl.SSLError as error:
        return _tls(server, error)
    except (KafkaError, ConnectionResetError, ConnectionAbortedError) as error:
        if isinstance(error.__cause__, ssl.SSLError):
            return _tls(server, error.__cause__)
        protocol = options.get("security_protocol")
        words = f"{server} hangs up on us without a word; does it want another KAFKA_SECURITY_PROTOCOL than {protocol}?"
        return Refusal(words, is_certain=False)
    return None


def _tls(server: str, error: ssl.SSLError) -> Refusal:
    if not isinstance(error, ssl.SSLCertVerificationError):
        mend = "correct KAFKA_SSL_CERTFILE or KAFKA_SECURITY_PROTOCOL"
        return Refusal(f"{server} agrees on no TLS with us ({error.reason}); {mend}", is_certain=True)
    if error.verify_code in _ANOTHER_NAME:
        mend = "name it in KAFKA_BOOTSTRAP_SERVERS as its certificate does, or set KAFKA_SSL_CHECK_HOSTNAME=0"
    elif error.verify_code == _HAS_EXPIRED:
        mend = "renew it at the broker"
    else:
        mend = "name the authority that signed it in KAFKA_SSL_CAFILE"
    return Refusal(f"the certificate of {server} can't be trusted ({error.verify_message}); {mend}", is_certain=True)
