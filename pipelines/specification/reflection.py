"""What a compiled program says of its functions to whoever calls them; read without the compiler.

Reflection attributes of IREE's, each the numbers of arguments, between spaces.
"""

from __future__ import annotations

UNALIGNED_KEY = "winograd.unaligned"
"""The arguments that may lie anywhere in memory."""

READ_ONLY_KEY = "winograd.read_only"
"""The arguments that the function doesn't write to."""

STORAGE_KEY = "winograd.storage"
"""The arguments that the program declares as memory for results of its own."""
