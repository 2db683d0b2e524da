"""What AMD's compilers make of kernels: registers, shared memory, and how dense their main loops are.

No GPU is needed. `python -m benchmarks.amd --help` says how it is used.
"""
