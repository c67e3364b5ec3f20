"""How fast Obol is, beside what a user would pick instead: `python -m bench`, or `make bench`.

`sizes.py` says how much of everything, `fleet.py` what is in the records. `cluster.py`, `loader.py` and `child.py`
reach the broker and the processes that are measured: Obol's own worker, `stock.py`, `raw.py` and `restorer.py`. Each
file of `parts/` measures one thing; `figures.py` holds what was found, `report.py` shows it.
"""
