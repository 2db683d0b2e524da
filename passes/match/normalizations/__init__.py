"""Sums over rows, pixels and groups, and what is normalized by them: softmax, layers, groups of channels."""
