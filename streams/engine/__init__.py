"""The engine: passes records from Kafka to the rules, and their decisions back to Kafka, each record exactly once.

- `engine.py` composes the parts for one worker; Faust calls it, through `transport.py` and `table.py`.
- `partitions.py`: partitions are assigned and revoked. `changelogs.py`: up to where their changelogs are in memory.
- `intake.py`: queues records. `prices.py`: reads `croesus.prices`, which every worker does.
- `scheduling.py`: which shard applies records when. `ticks.py`: writes the ticks of the wall clock.
- `commit.py`: commits.
- `shard.py`: applies one partition's records, in the order of `merge.py`. `streams.replay` runs it in memory.
- `ports.py`: the interfaces to Kafka and to the clock. `kafka.py` and `clock.py` implement it.
"""
