"""The command info."""

from __future__ import annotations

from typing import Any

from gatel0rd.cli.console import console


def info() -> dict[str, Any]:
    """Say which version and which engine are active, and why."""
    import torch

    from gatel0rd import __version__
    from gatel0rd.engine import gpu, status

    versions = {"gatel0rd": __version__, "torch": torch.__version__, "threads": torch.get_num_threads()}
    found = {**versions, **status(), **gpu.status()}
    for name, value in found.items():
        console.print(f"{name}: {', '.join(value) if isinstance(value, list) else value}")
    return found
