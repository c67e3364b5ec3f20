"""The read model: a copy of all partitions in Redis, for views of the whole fleet."""

from streams.readmodel.store import FLUSH_S, STALE_MS, Lookup, ReadModel

__all__ = ["FLUSH_S", "STALE_MS", "Lookup", "ReadModel"]
