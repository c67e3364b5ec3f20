"""Why a cluster turns us away: aiokafka's clients log it, but what they raise only says that they can't connect."""

import ssl
from typing import Any, Final

from aiokafka.conn import create_conn
from aiokafka.errors import IllegalSaslStateError, KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanismError

_TIMEOUT_MS: Final = 5_000


async def why_refused(client_options: dict[str, Any]) -> str | None:
    """Knock at each bootstrap server until one says why it lets nobody in: a line with the mend.

    None where one lets us in, or none says anything, as where no broker answers.
    """
    options = dict(client_options)
    for server in options.pop("bootstrap_servers"):
        host, _, port = server.rpartition(":")
        try:
            connection = await create_conn(host.strip("[]"), int(port), request_timeout_ms=_TIMEOUT_MS, **options)
        except SaslAuthenticationFailed as error:
            return (
                f"{server} refuses the login of {options.get('sasl_plain_username')} ({_told(error)}); "
                "correct KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD"
            )
        except (UnsupportedSaslMechanismError, IllegalSaslStateError):
            return (
                f"{server} takes no login by {options.get('sasl_mechanism')}; "
                "correct KAFKA_SASL_MECHANISM or KAFKA_SECURITY_PROTOCOL"
            )
        except ssl.SSLCertVerificationError as error:
            return (
                f"the certificate of {server} is not trusted ({error.verify_message}); "
                "name the authority that signed it in KAFKA_SSL_CAFILE"
            )
        except ssl.SSLError as error:
            return f"{server} does not speak TLS as asked ({error.reason}); correct KAFKA_SECURITY_PROTOCOL"
        except (KafkaError, OSError, TimeoutError):
            continue
        connection.close()
        return None
    return None


def _told(error: KafkaError) -> str:
    return str(error.args[0]) if error.args else type(error).__name__
