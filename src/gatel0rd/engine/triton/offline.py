"""Compiling the kernels for GPUs that are not there: whether it works, shared memory, registers and spills.

``python -m gatel0rd.engine.triton.offline`` prints the table.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from gatel0rd.engine.triton.recurrence import plan
from gatel0rd.tables import Table

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
SHARED_MEMORY = {"sm_80": 163 * 1024, "sm_90": 227 * 1024, "gfx942": 64 * 1024}
"""Bytes that one program may have."""
SIZES = (32, 64, 128, 512)
POINTERS = {
    "forward": ("given", "first", "weight", "resets", "active", "states", "fresh", "gates", "recommended"),
    "backward": (
        *("first", "weight", "resets", "active", "states", "gates", "recommended"),
        *("d_states", "d_fresh", "d_gates", "d_given", "d_first"),
    ),
}
IN_WEIGHT_TYPE = ("given", "weight")
"""What has the type of the inputs; everything else is in float32, masks in bytes."""


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel for a target, with what it takes of a multiprocessor."""

    target: str
    kernel: str
    hidden: int
    dtype: str
    shared_memory: int
    registers: int
    spilled_bytes: int


def compile_kernel(
    target: str, pass_name: str, hidden: int, dtype: str = "fp32", precision: str = "ieee"
) -> CompiledKernel:
    """Compile one pass, with resets and lengths, for a target."""
    launch = plan(hidden, "retanh", precision, False, True, True)
    kernel = getattr(launch, pass_name)
    masks = {"resets": "*u8", "active": "*u8"}
    signature = {
        name: masks.get(name, f"*{dtype}" if name in IN_WEIGHT_TYPE else "*fp32") for name in POINTERS[pass_name]
    }
    signature |= dict.fromkeys(("steps", "batch", "H"), "i32")
    constants = {name: value for name, value in launch.options.items() if name.isupper()}
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    options = {name: value for name, value in launch.options.items() if name.islower()}
    built = triton.compile(source, target=TARGETS[target], options=options)
    registers, spilled = _read_assembly(target, built.asm)
    return CompiledKernel(target, kernel.__name__, hidden, dtype, int(built.metadata.shared), registers, spilled)


def _read_assembly(target: str, assembly: dict[str, Any]) -> tuple[int, int]:
    """Registers of a thread, and bytes that did not fit into them."""
    if "amdgcn" in assembly:
        found = {
            name: int(re.search(rf"\.{name}:\s+(\d+)", assembly["amdgcn"])[1])  # type: ignore[index]
            for name in ("vgpr_count", "vgpr_spill_count")
        }
        return found["vgpr_count"], 4 * found["vgpr_spill_count"]
    name = re.search(r"\.target (\S+)", assembly["ptx"])[1]  # type: ignore[index]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(assembly["ptx"])
        said = ""
        for tool in (knobs.nvidia.ptxas.path, knobs.nvidia.ptxas_blackwell.path):  # the second knows newer versions
            command = [tool, "-v", f"--gpu-name={name}", str(path), "-o", str(path.with_suffix(".cubin"))]
            run = subprocess.run(command, capture_output=True, text=True)
            said = run.stderr if run.returncode == 0 else said
    if not said:
        raise RuntimeError(f"ptxas did not assemble a kernel for {target}: {run.stderr}")
    registers, stores = re.search(r"Used (\d+) registers", said), re.search(r"(\d+) bytes spill stores", said)
    assert registers is not None and stores is not None
    return int(registers[1]), int(stores[1])


def compile_kernels(targets: Sequence[str] = tuple(TARGETS), sizes: Sequence[int] = SIZES) -> list[CompiledKernel]:
    """Both passes for every target and size, in float32 and in bfloat16."""
    return [
        compile_kernel(target, pass_name, hidden, dtype)
        for target in targets
        for hidden in sizes
        for dtype in ("fp32", "bf16")
        for pass_name in ("forward", "backward")
    ]


def main() -> None:
    """Print the table."""
    rows = [[str(value) for value in astuple(kernel)] for kernel in compile_kernels()]
    print(Table([field.name.replace("_", " ") for field in fields(CompiledKernel)], rows).markdown())


if __name__ == "__main__":
    main()
