"""The engine without a broker: records in memory, a clock that the caller moves. For tests, stand-ins and replays."""
