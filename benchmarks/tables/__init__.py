"""The tables of the documents, made of `benchmarks/results` by `python -m benchmarks.tables`."""
