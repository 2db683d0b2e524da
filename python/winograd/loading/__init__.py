"""A `.vmfb` in this process: devices, calls, signatures, threads."""
