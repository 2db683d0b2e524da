"""How kernels that wait for each other say so: what passes on programs and on commands agree on."""

from __future__ import annotations

CHAINED_ATTRIBUTE_NAME = "winograd.chained"
"""Of a `stream.executable` whose workgroups wait for those of the kernels before."""

COUNT_ELEMENTS = 16
"""Integers of 32 bits of the memory that a count has, a cache line; the first one is it."""
