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

from gatel0rd.engine.triton.recurrence import Precision, plan
from gatel0rd.tables import Table

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
SHARED_MEMORY = {"sm_80": 163 * 1024, "sm_90": 227 * 1024, "gfx942": 64 * 1024}
"""Bytes that one program may have."""
SIZES = (32, 64, 128)
"""Beyond 64 the kernels are the same for all sizes."""
PASSES: dict[str, dict[str, bool]] = {
    "forward": {"DRAW": False, "KEEP": True},
    "forward, draws noise": {"DRAW": True, "KEEP": False},
    "recompute": {"DRAW": True},
    "backward": {},
}
"""What is compiled, and with which options of its own."""
IN_INPUT_TYPE = ("given", "weight")
"""What has the type of the inputs; other pointers are to float32, except for these."""
OTHER_TYPES = {"resets": "*u8", "active": "*u8", "seed": "*i64", "noise_std": "fp32"}
OTHER_TYPES |= dict.fromkeys(("steps", "batch", "H"), "i32")
KINDS: tuple[tuple[str, Precision], ...] = (("fp32", "ieee"), ("fp32", "tf32"), ("bf16", "ieee"))
"""Types of the inputs, and how products of float32 are taken."""
ALIGNED = [["tt.divisibility", 16]]
"""Triton's hint for multiples of 16, such as many H and where PyTorch's tensors begin."""


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel for a target, with what it takes of a multiprocessor."""

    target: str
    work: str
    hidden: int
    dtype: str
    products: str
    shared_memory: int
    registers: int
    spilled_bytes: int


def compile_kernel(
    target: str, work: str, hidden: int, dtype: str = "fp32", precision: Precision = "ieee"
) -> CompiledKernel:
    """Compile what does one of :data:`PASSES`, with resets and lengths, for a target."""
    launch = plan(hidden, "retanh", precision, False, True, True)
    kernel = getattr(launch, work.split(",")[0])
    all_options = launch.options_of(kernel, **PASSES[work])
    constants = {name: value for name, value in all_options.items() if name.isupper()}
    constants |= {"H": 1} if hidden == 1 else {}  # as Triton does when a kernel is called
    types = {name: f"*{dtype}" if name in IN_INPUT_TYPE else "*fp32" for name in kernel.arg_names} | OTHER_TYPES
    signature = {name: "constexpr" if name in constants else types[name] for name in kernel.arg_names}
    aligned = [(name == "H" and hidden % 16 == 0) or kind.startswith("*") for name, kind in signature.items()]
    hints = {(position,): ALIGNED for position, one in enumerate(aligned) if one}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=hints)
    options = {name: value for name, value in all_options.items() if name.islower()}
    built = triton.compile(source, target=TARGETS[target], options=options)
    registers, spilled = _read_assembly(target, built.asm)
    shared = int(built.metadata.shared)
    return CompiledKernel(target, work, hidden, dtype, _find_products(built.asm), shared, registers, spilled)


def _find_products(assembly: dict[str, Any]) -> str:
    """In which type matrix units multiply; "fma" where they are not used."""
    if "amdgcn" in assembly:
        kinds = re.findall(r"v_mfma_f32_\w*?_?(xf32|bf16|f16|f32)\b", assembly["amdgcn"])
    else:
        kinds = re.findall(r"mma\S*\.(tf32|bf16|f16|f64)\.", assembly["ptx"])
    return ", ".join(sorted(set(kinds))) or "fma"


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
    """Everything for every target and size: float32 with ``ieee`` and ``tf32``, and bfloat16."""
    return [
        compile_kernel(target, work, hidden, dtype, precision)
        for target in targets
        for hidden in sizes
        for dtype, precision in KINDS
        for work in PASSES
    ]


def main() -> None:
    """Print the table."""
    rows = [[str(value) for value in astuple(kernel)] for kernel in compile_kernels()]
    print(Table([field.name.replace("_", " ") for field in fields(CompiledKernel)], rows).markdown())


if __name__ == "__main__":
    main()
