"""Where our `iree-compile` is."""

from __future__ import annotations

from pathlib import Path

TOOL_DIRECTORY = Path(__file__).parents[1] / "tools"
"""The folder with it, for `IREE_TOOL_PATH`."""
