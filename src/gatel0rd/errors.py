"""Kinds of errors that all rooms share."""

from __future__ import annotations


class FailedError(ValueError):
    """The work failed although what was asked for was right: nothing else has to be asked for, but something done."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory was not enough; PyTorch has no class for it on processors."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("allocate memory" in str(error) or "not enough memory" in str(error))
    )
