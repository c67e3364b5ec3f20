"""The Kafka request Metadata in version 10, the first one whose response has topic ids. aiokafka stops at 5."""

from base64 import urlsafe_b64encode
from io import BytesIO
from typing import Any, Final

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

API_KEY: Final = 3
VERSION: Final = 10
_NO_ID: Final = bytes(16)
_NO_TAGS: Final[dict[int, bytes]] = {}


class Uuid(AbstractType[bytes]):
    """16 bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """Encode the bytes."""
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        """Decode the bytes."""
        return data.read(len(_NO_ID))


_STRING: Final = CompactString("utf-8")


class MetadataResponse(Response):
    """The response in version 10."""

    API_KEY = API_KEY
    API_VERSION = VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32), ("host", _STRING), ("port", Int32), ("rack", _STRING), ("t", TaggedFields)
            ),
        ),
        ("cluster_id", _STRING),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", _STRING),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("t", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("t", TaggedFields),
            ),
        ),
        ("cluster_authorized_operations", Int32),
        ("t", TaggedFields),
    )


class MetadataRequestStruct(RequestStruct):
    """The request in version 10."""

    API_KEY = API_KEY
    API_VERSION = VERSION
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = MetadataResponse
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", Uuid), ("name", _STRING), ("t", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("t", TaggedFields),
    )


class MetadataRequest(Request[MetadataRequestStruct]):
    """Describes topics by name, without creating them. Raises `NotImplementedError` for a broker before Kafka 2.8."""

    API_KEY = API_KEY

    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[MetadataRequestStruct]) -> MetadataRequestStruct:
        """Return the request."""
        topics = [(_NO_ID, name, _NO_TAGS) for name in self._topics]
        return request_struct_class(topics, False, False, False, _NO_TAGS)


def topic_id(raw: Any) -> str:
    """Return a topic id in Kafka's format."""
    return urlsafe_b64encode(raw).decode().rstrip("=")
