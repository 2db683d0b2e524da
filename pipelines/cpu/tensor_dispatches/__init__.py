"""Kernels beside those of convolutions: for which operations they are, and what they are launched with.

Kernels are imported when they are needed.
"""
