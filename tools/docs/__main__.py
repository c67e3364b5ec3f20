"""`python -m tools.docs` writes the generated documents; with `--check` it only lists those that are stale."""

import sys

from tools.docs.documents import stale, write

if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        names = stale()
        print("\n".join(f"{name} is stale: run `make docs`" for name in names) or "all documents are up to date")
        sys.exit(1 if names else 0)
    for name in write():
        print(f"wrote {name}")
