"""Flags that the stock `iree-compile` knows, and those that it doesn't."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence

from iree.winograd.compiling import embedding

_UNKNOWN = re.compile(r"Unknown command line argument '([^']*)'")
_LISTED = re.compile(r"^ +--?([A-Za-z][\w-]*)", re.MULTILINE)


def unknown_flags(flags: Sequence[str]) -> list[str]:
    """Those of `flags`, which are no inputs, that the stock tool says it doesn't know, as they were given."""
    # It looks at flags before it reads an input, but there has to be one.
    command = [str(embedding.stock_tool("iree-compile")), *flags, os.devnull]
    said = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    return _UNKNOWN.findall(said.stderr)


def stock_flags() -> list[str]:
    """The names, without dashes, of all flags that the stock tool has."""
    command = [str(embedding.stock_tool("iree-compile")), "--help-hidden"]
    return _LISTED.findall(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
