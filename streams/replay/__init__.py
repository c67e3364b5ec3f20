"""The engine without a broker: records in memory, a clock moved by hand. For tests, stand-ins and replays."""
