"""Where the elements of a tensor lie in another one: slices, views, transpositions, shuffles, padding."""
