"""What the operating system says of the processor."""

from __future__ import annotations

import re
from pathlib import Path

SYSTEM = Path("/sys/devices/system/cpu")
_SIZE = re.compile(r"(\d+)([KMG]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cache_sizes(system: Path = SYSTEM) -> tuple[int, ...]:
    """Bytes of a core's caches for data, from the innermost on; empty where the system doesn't tell."""
    sizes: dict[int, int] = {}
    try:
        for index in sorted((system / "cpu0/cache").glob("index*")):
            match = _SIZE.fullmatch((index / "size").read_text().strip())
            if (index / "type").read_text().strip() == "Instruction" or match is None:
                continue
            sizes[int((index / "level").read_text())] = int(match[1]) * _UNITS[match[2]]
    except (OSError, ValueError):
        return ()
    ordered = tuple(size for _, size in sorted(sizes.items()))
    return ordered if ordered == tuple(sorted(set(ordered))) else ()
