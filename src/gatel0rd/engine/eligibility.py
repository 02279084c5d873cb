"""Whether the compiled engine may run a module on some tensors: the one place that decides.

It may where it computes what PyTorch would compute, by reading exactly the tensors that PyTorch would read. So it runs
modules of known types in a known layout, without hooks or patches, on plain tensors in the machine's memory;
everything else is PyTorch's.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Hashable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_internals
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from gatel0rd.engine import native
from gatel0rd.engine.builder import DescribedModule, ProgramModule

DTYPES = (torch.float32, torch.float64)
_DTYPES = set(DTYPES)
_PLAIN = (Tensor, nn.Parameter)

_KNOWN = {kind: kind.forward for kind in (nn.Linear, nn.Tanh, nn.Sequential, nn.ModuleList)}
"""Modules of PyTorch that programs are made of, with what they do; a class that was patched since is noticed."""
_GLOBAL_HOOKS = [f"_global_{kind}_hooks" for kind in ("backward_pre", "backward", "forward_pre", "forward")]
_CALL = nn.Module.__call__


Layout = tuple[Hashable, ...]
"""What a module is made of, and so what its program depends on: how deep each part is inside, its name, its class, the
names and shapes of its parameters that are there, and which parts are the same module. A program is made anew for
another layout.
"""


class SlowPathWarning(RuntimeWarning):
    """A module runs in PyTorch, where the compiled engine would be faster.

    Example:
        >>> import warnings
        >>> from gatel0rd.engine import SlowPathWarning
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", SlowPathWarning)  # insist on the fast path
    """


def unavailable(reason: str) -> native.EngineUnavailableError:
    return native.EngineUnavailableError(f"engine='native' cannot be used: {reason}; choose engine='auto'")


def can_run(engine: native.EngineName, tensors: Sequence[Tensor], module: nn.Module, *, called: bool = True) -> bool:
    """Whether :func:`find_layout` finds one.

    Example:
        >>> import torch
        >>> from gatel0rd import GateL0RD
        >>> from gatel0rd.engine import can_run
        >>> rnn = GateL0RD(3, 2)
        >>> can_run("torch", [torch.randn(7, 5, 3)], rnn)
        False
    """
    return find_layout(engine, tensors, module, called=called) is not None


def find_layout(
    engine: native.EngineName,
    tensors: Sequence[Tensor],
    module: nn.Module,
    *,
    masks: Sequence[Tensor | None] = (),
    called: bool = True,
) -> Layout | None:
    """The module's layout, if the compiled engine takes it and these tensors; None otherwise, or an error if the engine
    was asked for by name.

    Args:
        tensors: what the engine will read, of the type of the module's parameters.
        module: what would run as a program.
        masks: what it will read too, of any type.
        called: whether it is inside of the module's own call, which sees to the module's own hooks.

    Example:
        >>> import torch
        >>> from gatel0rd.engine import find_layout
        >>> from gatel0rd.nn.cells import GateL0RDCore
        >>> x, cells = torch.randn(7, 5, 3), [GateL0RDCore(3, 2, 2), GateL0RDCore(3, 2, 2)]
        >>> find_layout("auto", [x], cells[0]) == find_layout("auto", [x], cells[1])
        True
    """
    native.check_name(engine)
    if engine == "torch":
        return None
    if not native.is_available():
        if engine == "native":
            native.module()
        native.warn_once()
        return None
    reason = reason_against_tracing()
    if not reason:
        found = Parts()
        found.add(0, "", module)
        reason = reason_against_tensors([*tensors, *found.tensors], [mask for mask in masks if mask is not None])
        if not reason:
            reason = reason_against_modules(found.modules, called)
            if reason and engine != "native":
                warn_slow(reason)
    if reason and engine == "native":
        raise unavailable(reason)
    return None if reason else (*found.layout, *found.repeated())


class Parts:
    """A module and everything inside it, in order: modules, their parameters and buffers, and the layout."""

    def __init__(self) -> None:
        self.modules: list[nn.Module] = []
        self.tensors: list[Tensor] = []
        self.layout: list[Hashable] = []

    def add(self, depth: int, name: str, module: nn.Module) -> None:
        """Add a module and what is inside it: ``named_modules()``, without what makes that slow."""
        self.modules.append(module)
        self.layout += [depth, name, type(module)]  # type: ignore[list-item]
        for key, tensor in module._parameters.items():
            if tensor is not None:
                self.tensors.append(tensor)
                self.layout.append(key)
                if type(tensor) in _PLAIN:  # others, which may have no shape yet, are not for the engine
                    self.layout += tensor.shape
        if module._buffers:
            self.tensors += [tensor for tensor in module._buffers.values() if tensor is not None]
        for key, part in module._modules.items():
            if part is not None:
                self.add(depth + 1, key, part)

    def repeated(self) -> list[int]:
        """Where each part is first, if one is there more than once; a program finds its parameters at that place."""
        numbers = [*map(id, self.modules)]
        return [] if len(set(numbers)) == len(numbers) else [*map(numbers.index, numbers)]


def is_plain(module: nn.Module) -> bool:
    """Whether a module computes what its parts and their parameters say, so that it may be computed otherwise."""
    found = Parts()
    found.add(0, "", module)
    return not reason_against_modules(found.modules, called=False)


def reason_against_tracing() -> str:
    """Why operations are not simply computed here and now: somebody records or replaces them."""
    if torch.compiler.is_compiling():
        return "the model is being compiled by torch.compile"
    if torch._C._get_tracing_state() is not None:
        return "the model is being traced by torch.jit or torch.onnx"
    if torch._C._len_torch_dispatch_stack() > 0:
        return "a TorchDispatchMode is active"
    if torch._C._len_torch_function_stack() > 0:
        modes = [mode for mode in _get_current_function_mode_stack() if type(mode) is not DeviceContext]
        if modes:
            return f"the TorchFunctionMode {type(modes[-1]).__name__} is active"
    return ""


def reason_against_tensors(tensors: Sequence[Tensor], masks: Sequence[Tensor] = ()) -> str:
    """Why the engine does not take these tensors, and masks of any type; empty if it does."""
    transforms = torch._C._functorch.peek_interpreter_stack() is not None
    forward_mode = torch.autograd.forward_ad._current_level >= 0
    for tensor in (*tensors, *masks):
        if transforms and torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return "a tensor is inside torch.func (vmap, grad or jvp)"
        if transforms and tensor.requires_grad and torch.is_grad_enabled():
            return "gradients are wanted of what is inside torch.func (vmap, grad or jvp)"
        if type(tensor) not in _PLAIN:
            return f"a tensor is of the class {type(tensor).__name__}"
        if not tensor.is_cpu:
            return f"a tensor is on the device {tensor.device}"
        if tensor.layout is not torch.strided or tensor.is_nested:
            return "a tensor is sparse or nested"
        if forward_mode and torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None:
            return "a tensor carries a forward-mode derivative"
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1 and dtypes <= _DTYPES:
        return ""
    for dtype in dtypes:
        if dtype not in _DTYPES:
            return f"a tensor is of type {dtype}"
    return "tensors are of different types"


def reason_against_modules(parts: Sequence[nn.Module], called: bool) -> str:
    """Why a module (the first of its parts) would not compute what its parts and their parameters say."""
    if any(getattr(module_internals, name) for name in _GLOBAL_HOOKS):
        return "there are hooks on all modules"
    if nn.Module.__call__ is not _CALL and not torch.compiler.is_compiling():  # torch.export notes who calls whom
        return "nn.Module.__call__ was replaced"
    for index, part in enumerate(parts):
        kind = type(part)
        if (index or not called) and (
            part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks
        ):
            return f"{kind.__name__} has hooks"
        if kind in _KNOWN:
            if kind.forward is not _KNOWN[kind] or "forward" in part.__dict__:
                return f"the forward of {kind.__name__} was replaced"
        elif issubclass(kind, DescribedModule):
            stale = _overridden(kind)  # type: ignore[arg-type]
            if stale:
                return f"{kind.__name__} overrides {stale} but not {kind.described[stale]}"
            for name, method in kind.own_methods.items():
                if getattr(kind, name) is not method or name in part.__dict__:
                    return f"{name} of {kind.__name__} was replaced"
        else:
            return f"{kind.__name__} is not a module that the engine knows"
    return ""


@functools.cache
def _overridden(kind: type[DescribedModule]) -> str:
    """A method that was overridden after the program that describes it was written; empty if there is none."""
    order = kind.__mro__

    def home(name: str) -> int:
        return next(index for index, parent in enumerate(order) if name in vars(parent))

    newest = home("program") if issubclass(kind, ProgramModule) else len(order)
    for method, program in kind.described.items():
        if min(newest, home(program)) > home(method):
            return method
    return ""


@functools.cache
def warn_slow(reason: str) -> None:
    """Say, the first time for each reason, that a module runs in PyTorch."""
    warnings.warn(
        f"gatel0rd runs this in PyTorch, which can be many times slower than its compiled engine: {reason}. "
        "Choose engine='torch' if this is meant, and to silence this.",
        SlowPathWarning,
        stacklevel=5,
    )
