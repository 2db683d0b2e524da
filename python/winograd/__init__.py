"""Fast convolutions for MLIR and IREE: Winograd rewrites and kernels on the stock IREE wheels."""
