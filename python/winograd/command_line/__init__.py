"""`iree-compile` with our flags, and `winograd-opt`."""
