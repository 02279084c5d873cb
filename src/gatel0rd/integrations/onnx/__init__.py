"""World models as ONNX files, to run without PyTorch."""

from gatel0rd.integrations.onnx.export import export_onnx

__all__ = ["export_onnx"]
