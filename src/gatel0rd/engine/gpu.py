"""Whether layers on a GPU run by Triton's kernels, and why not."""

from __future__ import annotations

import functools
import importlib.util
import os

import torch

LARGEST = 512
"""Hidden size up to which there are kernels; larger layers are PyTorch's."""
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
PRECISION_VARIABLE = "GATEL0RD_PRECISION"
PRECISIONS = ("ieee", "tf32")


def precision() -> str:
    """How products of float32 are taken on a GPU: as PyTorch is told to, or as ``GATEL0RD_PRECISION`` says."""
    wanted = os.environ.get(PRECISION_VARIABLE)
    if wanted is None:
        return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"
    if wanted not in PRECISIONS:
        raise ValueError(f"{PRECISION_VARIABLE} is {wanted!r}; expected one of {', '.join(PRECISIONS)}")
    return wanted


@functools.cache
def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def reason_against(device: str, hidden: int, dtype: torch.dtype) -> str:
    """Why a layer does not run by kernels; empty if it does."""
    if device != "cuda":
        return f"there are kernels for CUDA and ROCm devices, not for {device}"
    if not torch.cuda.is_available():
        return "PyTorch sees no CUDA or ROCm device"
    if not has_triton():
        return "Triton is not installed; `pip install gatel0rd[gpu]`"
    if hidden > LARGEST:
        return f"the hidden size is {hidden}; there are kernels up to {LARGEST}"
    if dtype not in DTYPES:
        return f"the layer is of type {dtype}; there are kernels for float32, bfloat16 and float16"
    return ""


def status() -> dict[str, str]:
    """Which path layers on a GPU take, and why."""
    if not torch.cuda.is_available():
        why = "PyTorch sees no CUDA or ROCm device"
        return {"gpu": "torch", "gpu_why": why + ("" if has_triton() else ", and Triton is not installed")}
    reason = reason_against("cuda", 1, torch.float32)
    if reason:
        return {"gpu": "torch", "gpu_why": reason}
    return {
        "gpu": "triton",
        "gpu_why": f"layers up to H = {LARGEST} run by Triton's kernels, once compared with PyTorch's results",
        "gpu_precision": precision(),
    }
