"""Machines: what is known of a processor, by default and as it was measured."""
