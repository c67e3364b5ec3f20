"""Benchmarks of Obol against a stock Faust agent and raw aiokafka: `python -m bench`, or `make bench`.

`sizes.py` has the sizes of a run, `fleet.py` the records. `cluster.py`, `loader.py` and `child.py` access the broker
and the measured processes: an Obol worker, `stock.py`, `raw.py` and `restorer.py`. Each file of `parts/` measures one
part; `figures.py` has the results, `report.py` prints them.
"""
