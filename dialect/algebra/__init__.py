"""The algebra of the transforms: exact, without MLIR."""
