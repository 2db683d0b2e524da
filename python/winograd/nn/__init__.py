"""Layers of torch's on this project's kernels."""
