"""How a command fails: one line on stderr that says what is wrong and how to mend it, and an exit code."""

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
EXIT_NO_ANSWER: Final = 3
EXIT_INTERRUPTED: Final = 130


class Failure(Exception):
    """Something that the person at the terminal can mend; the message says what and how, in one line."""

    def __init__(self, message: str, code: int = EXIT_FAILED) -> None:
        super().__init__(" ".join(message.split()))
        self.code = code


def told_of_kafka(error: KafkaError, servers: tuple[str, ...]) -> str:
    """What went wrong between us and the cluster, with the mend."""
    cluster = ",".join(servers)
    match error:
        case KafkaConnectionError() | NoBrokersAvailable():
            return f"no broker answers at {cluster}: start one with `make broker`, or correct KAFKA_BOOTSTRAP_SERVERS"
        case InvalidTimestampError():
            return "the broker refuses a timestamp that is more than an hour ahead: choose an earlier --at"
        case MessageSizeTooLargeError():
            return "the record is too large for the broker: at most 64 KiB of value can be applied anyway"
        case TopicAuthorizationFailedError():
            return f"this user may not use the topic ({error}): grant it, or correct KAFKA_SASL_USERNAME"
        case _:
            return f"the cluster at {cluster} answered {type(error).__name__}: {error}"
