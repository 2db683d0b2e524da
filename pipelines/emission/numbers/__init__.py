"""The types of numbers that kernels read, compute with and write: a file each, and a row in `known.py`."""
