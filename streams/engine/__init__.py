"""The engine: it carries records from Kafka to the rules, and what they decide back, each record exactly once.

Without Kafka: `merge.py` (whose turn it is) and `shard.py` (one partition's accountant at work); `streams.replay` runs
them in memory. With Kafka: `transport.py`, `table.py`, `commit.py`, `ends.py`, `prices.py`, `clock.py`; `engine.py`
runs them.
"""
