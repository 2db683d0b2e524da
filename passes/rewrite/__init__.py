"""Rewrites of single operations and values, of which passes are made."""
