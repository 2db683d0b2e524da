"""One candidate: the program that it is, compiled, bound to its input, and timed beside others."""
