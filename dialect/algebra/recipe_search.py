"""Writes the recipes that are shipped: `python -m iree.winograd.dialect.algebra.recipe_search`.

Run it after the points have changed. It searches longer than `transforms` does for a size that isn't shipped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from iree.winograd.dialect.algebra.transforms import derive, to_data


def shipped_sizes() -> list[tuple[int, int]]:
    """F(m, r) that interpolate, with alpha up to 10, and with m up to 10 for 3, 5 and 7 taps."""
    small = {(alpha - r + 1, r) for alpha in range(3, 11) for r in range(2, alpha)}
    return sorted(
        small | {(m, r) for m in range(2, 11) for r in (3, 5, 7)}, key=lambda size: (sum(size), size)
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m iree.winograd.dialect.algebra.recipe_search", description=__doc__
    )
    parser.add_argument("--restarts", type=int, default=30, help="random factorizations per matrix")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("recipes.json"))
    options = parser.parse_args(arguments)
    sizes = shipped_sizes()
    lines = []
    with ProcessPoolExecutor(options.processes) as pool:
        pending = [pool.submit(derive, m, r, options.restarts) for m, r in sizes]
        for done, ((m, r), future) in enumerate(zip(sizes, pending, strict=True), 1):
            lines.append(f'  "{m},{r}": {json.dumps(to_data(future.result()), separators=(",", ":"))}')
            print(f"\r{done} of {len(sizes)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    options.output.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
