from typing import Any

from faust.types.tuples import ConsumerMessage

class EventT:
    value: Any
    message: ConsumerMessage
