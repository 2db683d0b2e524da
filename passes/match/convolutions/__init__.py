"""Convolutions and their gradients: sizes, layouts, types."""
