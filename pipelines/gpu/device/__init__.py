"""The GPU as kernels see it: its limits, memory, grids of workgroups, launches and matrix units."""
