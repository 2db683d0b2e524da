"""What caches of CPUs exchange at a time, and where they keep it."""

CACHE_LINE_BYTES = 64
L1_WAY_BYTES = 4096
"""Bytes apart, or a multiple, at which elements share a set of the first cache."""
