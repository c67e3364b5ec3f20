"""How a command fails: an exit code, and one line on stderr with the error and the fix."""

from typing import Final

from aiokafka.errors import (
    InvalidTimestampError,
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    NoBrokersAvailable,
    TopicAuthorizationFailedError,
)

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NO_RESPONSE: Final = 3
EXIT_INTERRUPTED: Final = 130


class Failure(Exception):
    """An error that the user can fix. The message is one line: the error and the fix."""

    def __init__(self, message: str, code: int = EXIT_FAILED) -> None:
        super().__init__(" ".join(message.split()))
        self.code = code


def describe_kafka_error(error: KafkaError, servers: tuple[str, ...]) -> str:
    """Return the message for a Kafka error, with the fix."""
    cluster = ",".join(servers)
    match error:
        case KafkaConnectionError() | NoBrokersAvailable():
            return f"no broker answers at {cluster}: start one with `make broker`, or correct KAFKA_BOOTSTRAP_SERVERS"
        case InvalidTimestampError():
            return "the broker refuses a timestamp more than an hour ahead of its clock: use an earlier --at"
        case MessageSizeTooLargeError():
            return "the record is too large for the broker: Obol accepts values of at most 64 KiB"
        case TopicAuthorizationFailedError():
            return f"this user may not access the topic ({error}): grant access, or correct KAFKA_SASL_USERNAME"
        case _:
            return f"the cluster at {cluster} returned {type(error).__name__}: {error}"
