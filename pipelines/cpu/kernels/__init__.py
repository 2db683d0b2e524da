"""What computes: Winograd, direct and depthwise, and the parts that they are made of."""
