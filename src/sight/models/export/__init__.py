"""Export of trained classifiers: ONNX, ONNX fused with a method, int8."""
