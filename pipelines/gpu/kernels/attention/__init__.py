"""Attention, whose scores stay in registers and shared memory."""
