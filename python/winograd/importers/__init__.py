"""Models of other frameworks, taken in: torch and ONNX."""
