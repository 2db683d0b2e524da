"""Passes that keep programs away from what IREE 3.13 does wrong."""
