"""Passes that hand operations to kernels of our own."""
