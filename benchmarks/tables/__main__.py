"""Writes the tables of the documents anew, from the results that their markers name.

python -m benchmarks.tables            # all pages
python -m benchmarks.tables --check    # exit with 1 if a page isn't what its results give
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.tables.pages import filled

ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, and say which pages differ")
    check = parser.parse_args().check
    differing = []
    for page in pages():
        text = page.read_text()
        if (new := filled(text)) != text:
            differing.append(page.relative_to(ROOT))
            if not check:
                page.write_text(new)
    for page in differing:
        print(f"{page} {'differs' if check else 'written'}")
    return 1 if check and differing else 0


def pages() -> list[Path]:
    """The documents that may hold tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


if __name__ == "__main__":
    sys.exit(main())
