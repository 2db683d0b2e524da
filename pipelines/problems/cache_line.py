"""What caches of CPUs exchange at a time."""

CACHE_LINE_BYTES = 64
