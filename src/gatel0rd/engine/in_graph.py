"""The engine in a graph that torch.compile or torch.export records: what is decided while they do, and the operators.

What depends on modules alone is decided once, when a graph is made. As with PyTorch's own modules, a hook that is added
to a part of the module later is not noticed by a graph that is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from gatel0rd.engine import builder, eligibility, native
from gatel0rd.engine.operators import program_of, run_program
from gatel0rd.engine.program import Program, write_program

is_exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)  # since 2.7

Function = TypeVar("Function", bound=Callable[..., Any])


TAKES_MODULES = tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) >= (2, 13)
"""Whether torch.compile takes modules as arguments of :func:`decide_once`: tried with 2.6, 2.9 (no) and 2.13 (yes)."""


def leave_old_graphs(function: Function) -> Function:
    """With an older PyTorch, torch.compile ends its graph at this function and begins another one behind it."""
    return function if TAKES_MODULES else cast(Function, torch.compiler.disable(function))


def decide_once(function: Function) -> Function:
    """Call a function while a graph is made, and take what it returns as a constant of the graph.

    The mark of ``torch.compiler.assume_constant_result``, which would import all of torch.compile to set it: a second
    or more for every process that imports the layer.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@decide_once
def is_plain(module: nn.Module) -> bool:
    """:func:`gatel0rd.engine.eligibility.is_plain`, for a graph."""
    return eligibility.is_plain(module)


@decide_once
def _is_available(module: nn.Module) -> bool:
    return native.is_available() and eligibility.is_plain(module)


def takes(tensors: Sequence[Tensor], module: nn.Module) -> bool:
    """Whether the engine's operators take this module and these tensors."""
    parameters = list(module.parameters())
    dtype = tensors[0].dtype
    return (
        dtype in eligibility.DTYPES
        and all(tensor.dtype == dtype and tensor.device.type == "cpu" for tensor in (*tensors, *parameters))
        and _is_available(module)
    )


def draws(dtype: torch.dtype, device_type: str) -> bool:
    """Whether the engine draws random numbers of this kind in a graph."""
    known = dtype in eligibility.DTYPES and device_type == "cpu"
    return known and not is_exporting() and _is_there()


@decide_once
def _is_there() -> bool:
    return native.is_available()


def is_only_mapped(tensors: Sequence[Tensor], module: nn.Module) -> bool:
    """Whether this is inside of vmap and nothing else of torch.func, and nothing is differentiated.

    Operators of PyTorch have rules for the first alone.
    """
    functorch = torch._C._functorch
    if functorch.peek_interpreter_stack() is None:
        return False
    if any(level.key() != functorch.TransformType.Vmap for level in functorch.get_interpreter_stack()):
        return False
    return not (torch.is_grad_enabled() and any(one.requires_grad for one in (*tensors, *module.parameters())))


def describe(make: Callable[[], Program | None]) -> str:
    """A program as text; empty if there is none."""
    program = builder.describe(make)
    return "" if program is None else write_program(program)


@decide_once
def _names(text: str) -> tuple[list[str], list[str]]:
    """Parameters and masks of a program, by their dotted names."""
    program = program_of(text)
    return program.parameters, [program.masks[number] for number in sorted(program.masks)]


def run(text: str, root: nn.Module, sequences: list[Tensor], initials: list[Tensor]) -> list[Tensor]:
    """Run a program by its operator. Shape: sequences [T, B, ·], initials [B, ·]."""
    parameters, masks = _names(text)
    found = [[_find(root, name) for name in names] for names in (parameters, masks)]
    differentiated = any(tensor.requires_grad for tensor in (*sequences, *initials, *found[0]))
    keep = differentiated and torch.is_grad_enabled() and not is_exporting()
    results: list[Tensor] = run_program(text, sequences, initials, *found, keep)
    return results[:-1]


def _find(root: nn.Module, name: str) -> Tensor:
    for part in name.split("."):
        root = getattr(root, part)
    assert isinstance(root, Tensor)
    return root
