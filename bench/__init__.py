"""Benchmarks of Obol: `python -m bench`, or `make bench`; and a long run, `bench.soak`.

`sizes.py` has the sizes of a run, `fleet.py` the records. `cluster.py`, `loader.py` and `child.py` access the broker
and the measured processes: an Obol worker, `stock.py`, `raw.py`, `restorer.py`, and the Kafka Streams program that
`peer.py` builds. Each file of `parts/` measures one part; `run.py` and `growth.py` put them together. `figures.py` has
the results, `report.py` prints them.
"""
