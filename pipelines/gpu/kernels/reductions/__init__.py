"""Sums, moments, normalization and softmax."""
