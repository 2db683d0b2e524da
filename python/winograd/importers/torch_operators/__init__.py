"""Operators of torch that torch-mlir has no lowering for, or a wrong one, by those that it lowers."""
