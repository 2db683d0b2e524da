"""The layouts of what kernels pass to each other: transformed inputs, filters, products."""
