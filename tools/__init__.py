"""Set-up and local services for development. Standard library only, since it runs before anything is installed."""
