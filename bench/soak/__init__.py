"""A long run at a constant load, with a crash: `python -m bench.soak`, or `make soak`.

`run.py` drives it. `writer.py` writes heartbeats and `auditor.py` reads usage events, each in its own process.
`audit.py` compares the usage events with what every window must have been billed; `watch.py` measures the worker;
`report.py` has the figures.
"""
