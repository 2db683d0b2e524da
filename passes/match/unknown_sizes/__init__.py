"""Sizes that are known only at run time: how they are computed, and what they are expected to be."""
