"""What kernels are written in: index arithmetic, loops, buffers of vectors, transforms, dispatches."""
