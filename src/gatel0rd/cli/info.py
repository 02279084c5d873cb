"""The command info."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gatel0rd.cli.console import console
from gatel0rd.cli.options import optional


def info(json: Annotated[Path | None, optional("FILE", "Write the same to this file as JSON.")] = None) -> None:
    """Say which version and which engine are active, and why."""
    import torch

    from gatel0rd import __version__
    from gatel0rd.engine import gpu, status
    from gatel0rd.files import write_json

    versions = {"gatel0rd": __version__, "torch": torch.__version__, "threads": torch.get_num_threads()}
    found = {**versions, **status(), **gpu.status()}
    if json is not None:
        write_json(json, found)
    for name, value in found.items():
        console.print(f"{name}: {', '.join(value) if isinstance(value, list) else value}", highlight=False)
