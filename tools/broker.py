"""The local Kafka broker for development: `python tools/broker.py fetch|start|stop|status`.

`start` and `status` print the address as a line for a shell to evaluate.
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from tools.services import KAFKA, command_line  # noqa: E402 - the path above is what makes it importable

if __name__ == "__main__":
    sys.exit(command_line(KAFKA, sys.argv[1:]))
