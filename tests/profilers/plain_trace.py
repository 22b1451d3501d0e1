"""Compress traces without names of host and file: `plain_trace.py IN.json OUT.json.gz ...`."""

import gzip
import json
import sys
from itertools import pairwise
from pathlib import Path

NAMING = "host_name", "traceName", "trace_id"


def main(paths: list[str]) -> None:
    """Convert the files in turn."""
    for trace, packed in [*pairwise(map(Path, paths))][::2]:
        data = trace.read_bytes()
        document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        text = json.dumps({key: document[key] for key in document if key not in NAMING})
        packed.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1:])
