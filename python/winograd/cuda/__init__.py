"""NVIDIA's GPUs without IREE's runtime: its executables for them, their driver, and graphs of kernels."""
