"""`python -m streams.cli`: the same as `obol`."""

from streams.cli import main

main()
