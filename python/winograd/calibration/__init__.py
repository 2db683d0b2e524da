"""Measuring what the cost models need to know of a machine, with programs that IREE compiles and runs."""
