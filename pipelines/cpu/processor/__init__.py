"""The processor as kernels see it: its vectors and registers, products and transpositions in them."""
