"""The tuner: measures implementations of a program's convolutions, and keeps them in a database."""
