"""Restore rows without Kafka: `python -m bench.restorer FILE`, from a file written by `write_rows`.

The last line of its output is the number of rows, the CPU seconds of the restore, and the bytes of memory of the rows.
"""

import gc
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from streams.billing.prices import Prices
from streams.engine.shard import Shard
from streams.rules.context import Switches

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def write_rows(path: Path, rows: Iterable[tuple[str, bytes, bytes]]) -> int:
    """Write rows as (table, key, value) to a file. Returns their number."""
    count = 0
    with path.open("wb") as out:
        for table, key, value in rows:
            # Ids and compact JSON have no tab or newline.
            out.write(b"\t".join((table.encode(), key, value)) + b"\n")
            count += 1
    return count


def restore(path: Path) -> Shard:
    """Restore the rows of a file into a shard."""
    shard = Shard(0, partitions=1, prices=Prices(), switches=Switches(True, False), retention_ms=0, stall_timeout_s=0)
    with path.open("rb") as lines:
        for line in lines:
            table, key, value = line.rstrip(b"\n").split(b"\t")
            shard.restore(table.decode(), [(key, value)])
    shard.start({})
    return shard


def _rss_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


def main(path: Path) -> None:
    """Measure and print."""
    msgspec.json.encode({})
    before = _rss_bytes()
    started_s = time.process_time()
    gc.disable()  # as a worker does
    shard = restore(path)
    gc.enable()
    cpu_s = time.process_time() - started_s
    print(shard.restored_rows, cpu_s, _rss_bytes() - before)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
