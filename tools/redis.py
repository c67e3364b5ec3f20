"""The local Redis for development: `python tools/redis.py fetch|start|stop|status`.

`start` and `status` print the address as a line for a shell to evaluate.
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from tools.services import REDIS, command_line  # noqa: E402 - the path above is what makes it importable

if __name__ == "__main__":
    sys.exit(command_line(REDIS, sys.argv[1:]))
