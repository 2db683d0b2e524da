"""Where a kernel for CUDA waits for those ahead of it, as its text says."""

WAIT_PLACE = "// winograd waits here"
"""A line of it: a comment, since not all GPUs have such an instruction."""
