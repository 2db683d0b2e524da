"""The causes of what the main loops of products are bound by, for `benchmarks.amd.blocks` and its table."""

ENOUGH = 0.85
"""Of the peak rate."""
LARGE = 64
"""Rows and columns of RDNA's smallest block whose bound is above `ENOUGH`."""

LEFT, OTHER, HIGH = "left to IREE", "depthwise and grouped", f"bound of {ENOUGH} or more"
FUSED, MATRICES = "fused", "matrix units: smaller blocks"
FEW = "fewer sums than two warps of 8 x 8 a SIMD"
FULLER = f"more to do for a compute unit by {LARGE} x {LARGE}"
SMALL = "others"
LOW = (FEW, FULLER, SMALL, FUSED, MATRICES)
"""Causes of bounds that are lower."""
CAUSES = (LEFT, OTHER, HIGH, *LOW)
