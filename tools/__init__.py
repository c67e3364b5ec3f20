"""Set-up and local services for those who work on Obol. Standard library only: it runs before anything is installed."""
