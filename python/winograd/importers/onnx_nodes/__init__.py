"""ONNX operators in those that torch-mlir lowers rightly, from an ONNX graph to an ONNX graph."""
