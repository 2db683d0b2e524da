"""Rewrites on tensors, each a registered pass."""
