"""What a compiled program says of its functions to whoever calls them; read without the compiler."""

from __future__ import annotations

UNALIGNED_KEY = "winograd.unaligned"
"""Among IREE's reflection attributes of a function: the numbers, between spaces, of the arguments that may
lie anywhere in memory."""
