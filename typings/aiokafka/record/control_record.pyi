class ControlRecord:
    version: int
    type_: int
    @staticmethod
    def parse(data: bytes) -> ControlRecord: ...

ABORT_MARKER: ControlRecord
