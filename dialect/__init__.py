"""The winograd dialect: what a decomposed convolution is, and the ops that state it."""
