"""Passes whose choices depend on the target, on tensors still."""
