"""The engine: it carries records from Kafka to the rules, and what these decide back, each record exactly once.

- `engine.py` composes the parts for one worker; Faust calls it, through `transport.py` and `table.py`.
- `partitions.py`: partitions come and go. `changelogs.py`: how far their rows are in memory.
- `intake.py`: records in. `prices.py`: those of `croesus.prices`, which every worker reads.
- `scheduling.py`: which partition applies records when. `ticks.py`: the records of the wall clock.
- `commit.py`: commits out.
- `shard.py`: what one partition does with its records, in the order of `merge.py`. `streams.replay` runs it in memory.
- `ports.py`: what all of these ask of Kafka and of time. `kafka.py` and `clock.py` implement it.
"""
