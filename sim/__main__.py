"""`python -m sim`."""

from sim.cli import app

app(prog_name="python -m sim")
