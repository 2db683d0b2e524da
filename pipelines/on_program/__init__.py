"""Passes on the whole program: its commands, notes for the runtime, memory."""
