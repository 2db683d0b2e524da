"""What computes: transforms and products, fused or one after another, and depthwise."""
