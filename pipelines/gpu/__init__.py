"""Kernels for GPUs: one generator for Vulkan (SPIR-V), CUDA and HIP; targets differ by data."""
