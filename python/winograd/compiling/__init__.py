"""From a program to a `.vmfb`: options, attempts, passes, assembler, diagnostics."""
