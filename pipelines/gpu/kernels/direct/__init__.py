"""Convolutions without transforms: by threads, as implicit matrix products, and of pixels that stream."""
