"""Kernels for CPUs, through LLVM."""
