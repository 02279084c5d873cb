"""Files that are written whole or not at all, locks, and tensor files with a checksum that never execute code."""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import json
import os
import platform
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from gatel0rd.errors import FailedError

Arrays = dict[str, np.ndarray[Any, Any]]


class FileError(ValueError):
    """A file that cannot be used; the message says why and what to do."""


class WriteError(FileError, FailedError):
    """A file that cannot be written."""


class InUseError(FileError, FailedError):
    """A directory that another process holds."""


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write next to the target, flush to disk, rename: a reader sees the old file or the new one, never half of it.

    A link is followed; a device, a pipe or an open stream (``/dev/stdout``) is written to and stays what it is. A new
    file has the permissions that the umask gives, an old one keeps its own. A disk that is full is a
    :class:`FileError`, and the old file is left.
    """
    data = content.encode() if isinstance(content, str) else content
    with explain_write_errors(path):
        if (number := find_stream(path)) is not None:
            _write_to_stream(number, data)
            return
        if path.exists() and not path.is_file():
            with path.open("wb", buffering=0) as file:
                write_all(file, data)
            return
        path = Path(os.path.realpath(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _open_temporary(path)
        try:
            with os.fdopen(temporary.handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if path.exists():
                os.chmod(temporary.path, stat.S_IMODE(path.stat().st_mode))
            os.replace(temporary.path, path)
        except BaseException:
            temporary.path.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


def find_stream(path: Path) -> int | None:
    """The number of the open stream that a path names, as 1 for ``/dev/stdout``; None if it names none."""
    named = {"/dev/stdout": 1, "/dev/stderr": 2}.get(path.as_posix())
    match = re.fullmatch(r"/(?:dev|proc/self)/fd/([0-9]{1,9})", path.as_posix())
    return int(match[1]) if match else named


def _write_to_stream(number: int, data: bytes) -> None:
    """Write where an open stream is, which may be the end of a file that others write to, too."""
    own = {1: sys.stdout, 2: sys.stderr}
    if own.get(number, sys) is None:  # it was closed, and its number may belong to another file by now
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    for stream in own.values():
        if stream is not None:
            stream.flush()
    with os.fdopen(os.dup(number), "wb", buffering=0) as file:
        write_all(file, data)


def write_all(file: IO[bytes], data: bytes) -> None:
    """Write to a file without a buffer, which may take a part at a time."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """An error of the system becomes a :class:`WriteError` that names the file, and says what to do."""
    try:
        yield
    except OSError as error:
        advice = {
            errno.ENOSPC: "; free some space and start again",
            errno.EDQUOT: "; free some space and start again",
            errno.EFBIG: "; allow larger files (ulimit -f) and start again",
            errno.ENAMETOOLONG: "; choose a shorter name",
            **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "; choose a place that you may write to"),
            **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "; a file is in the way of a directory"),
        }.get(error.errno or 0, "")
        raise WriteError(f"{path} cannot be written: {error.strerror or error}{advice}") from error


class _Temporary(NamedTuple):
    handle: int
    path: Path


def _open_temporary(path: Path) -> _Temporary:
    """A new file next to the target, with the permissions of the umask; what killed processes left is removed."""
    host = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
    stem = f".{hashlib.sha256(path.name.encode()).hexdigest()[:16]}."  # as long for every name
    for left in path.parent.glob(f"{stem}{host}.*.part"):
        process = left.name.split(".")[3]
        if process.isdigit() and not _is_alive(int(process)):
            left.unlink(missing_ok=True)
    temporary = path.with_name(f"{stem}{host}.{os.getpid()}.{secrets.token_hex(4)}.part")
    return _Temporary(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), temporary)


def _is_alive(process: int) -> bool:
    if os.name == "nt":  # os.kill would end it there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass  # somebody else's, or a number that no process has: left alone
    return True


def sync_directory(directory: Path) -> None:
    """Bring new and renamed entries of a directory to the disk, so that they survive a power cut in order."""
    if os.name == "nt":  # Windows has no handles of directories
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def find_files(directory: Path, pattern: str) -> list[Path]:
    """The files below a directory whose names match, in order; links to directories are followed, each once."""
    found: list[Path] = []
    seen: set[str] = set()
    for place, inner, names in os.walk(directory, followlinks=True):
        inner.sort()
        if os.path.realpath(place) in seen:
            inner.clear()
            continue
        seen.add(os.path.realpath(place))
        found += [Path(place, name) for name in (*inner, *names) if fnmatch.fnmatchcase(name, pattern)]
    return sorted(found)


def check_writable(path: Path) -> None:
    """A path that cannot become a file is a :class:`FileError`, before work is done for it."""
    if find_stream(path) is not None:
        return
    if path.is_dir():
        raise FileError(f"{path} is a directory; expected the name of a file")
    if path.exists() and not path.is_file() and os.access(path, os.W_OK):  # a device or a pipe
        return
    parent = next(place for place in path.absolute().parents if place.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise FileError(f"{path} cannot be written, {parent} is no directory that can be written to")


@contextmanager
def exclusive(directory: Path, patience: float = 0.0, *, name: str = "lock") -> Iterator[None]:
    """Hold the directory for this process; one that another process holds for longer is a :class:`FileError`.

    Args:
        patience: seconds to wait for another process, which may be about to die with its coordinator or its node.
        name: file that is locked; processes that lock another one do not wait for each other.
    """
    with explain_write_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    with explain_write_errors(directory / name):
        file = (directory / name).open("a")
    last = time.monotonic() + patience
    with file:
        while not _try_lock(file):
            if time.monotonic() >= last:
                raise InUseError(
                    f"{directory} is in use by another process; wait until it has finished, or choose another directory"
                )
            time.sleep(0.1)
        yield  # closing the file releases the lock, as the end of the process does


def _try_lock(file: IO[Any]) -> bool:
    """Lock an open file, unless another process holds it. Each platform has a module of its own for this."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise
        raise WriteError(
            f"{file.name} cannot be locked: {error.strerror}; choose a directory on a file system with locks "
            "(Lustre has them if it is mounted with flock)"
        ) from error
    return True


def write_json(path: Path, content: Any) -> None:
    """Write a list or an object as JSON, atomically, one entry per line."""
    if isinstance(content, dict):
        lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in content.items()]
        brackets = "{}"
    else:
        lines, brackets = [json.dumps(entry, allow_nan=False) for entry in content], "[]"
    write_atomically(path, brackets[0] + "\n" + ",\n".join(lines) + "\n" + brackets[1] + "\n")


def write_sealed_json(path: Path, content: dict[str, Any]) -> None:
    """Write an object as JSON, atomically, with a checksum by which :func:`read_json` knows that it is undamaged."""
    plain = json.loads(json.dumps(content))
    write_json(path, {**plain, SEAL: _seal_content(plain)})


SEAL = "sha256"
"""What the checksum is called in a JSON file."""


def _seal_content(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file, which may be sealed; anything else is a :class:`FileError` that names the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} cannot be read ({error}); restore it or make it again") from error
    content = parse_json(text, path)
    seal = content.pop(SEAL, None)  # there is none in files of earlier versions
    misnamed = any(isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) for value in content.values())
    if misnamed or (seal is not None and seal != _seal_content(content)):
        raise FileError(
            f"{path} is damaged: its content does not match the checksum inside; restore it or make it again"
        )
    return content


MOST_NESTED = 100
"""Levels of JSON: our own files have ten, and Python's own limit depends on who is asking."""


def is_nested_deeply(content: Any) -> bool:
    """Whether JSON data has more than :data:`MOST_NESTED` levels."""
    level = [content]
    for _ in range(MOST_NESTED):
        inner = [list(entry.values()) if isinstance(entry, dict) else entry for entry in level]
        level = [value for entry in inner if isinstance(entry, list) for value in entry]
        if not level:
            return False
    return True


def parse_json(text: str, source: Path) -> dict[str, Any]:
    """The object in a text. Integers have 128 bits at most, which states of random number generators need."""
    try:
        content = json.loads(text, parse_int=_parse_integer)
        if is_nested_deeply(content):
            raise RecursionError
    except (ValueError, RecursionError) as error:
        what = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise FileError(f"{source} is damaged: {what}; restore it or make it again") from error
    if not isinstance(content, dict):
        raise FileError(f"{source} is damaged: it holds a {type(content).__name__}, expected an object; restore it")
    return content


def _parse_integer(digits: str) -> int:
    if len(digits) > 40 or abs(int(digits)) >= 2**128:
        raise ValueError(f"{digits[:20]}… is too large a number")
    return int(digits)


def checksum(arrays: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """SHA-256 over names, types, shapes and contents."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _seal(kind: str, metadata: str, of_arrays: str) -> str:
    """A checksum of everything in a file. Files of versions before 0.2 have that of the arrays alone."""
    return hashlib.sha256(json.dumps([kind, metadata, of_arrays]).encode()).hexdigest()


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]], *, kind: str, metadata: dict[str, Any]) -> None:
    """Write a safetensors file of some ``kind`` (dataset, model, checkpoint) with metadata and checksum inside."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps(metadata)
    header = {"kind": f"gatel0rd {kind}", "sha256": _seal(kind, text, checksum(contiguous)), "metadata": text}
    write_atomically(path, save(contiguous, metadata=header))


def read_header(path: Path) -> tuple[str, dict[str, Any]]:
    """Kind and metadata of a file that :func:`save_arrays` wrote, without reading its arrays."""
    if not path.is_file():
        raise FileError(f"there is no file {path}")
    try:
        with safe_open(path, framework="np") as file:
            return _parse_header(path, file.metadata())
    except (SafetensorError, OSError) as error:
        raise FileError(f"{path} is truncated or not a file of gatel0rd ({error})") from error


def load_arrays(path: Path, *, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """Read what :func:`save_arrays` wrote; a damaged file or one of another kind is a :class:`FileError`."""
    if not path.is_file():
        raise FileError(f"there is no {kind} file {path}")
    try:
        with safe_open(path, framework="np") as file:
            header = file.metadata() or {}
            found, metadata = _parse_header(path, header)
            if found != kind:
                raise FileError(f"{path} is gatel0rd {found}; expected a gatel0rd {kind}")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise FileError(f"{path} is truncated or not a {kind} file ({error}); make it again or restore it") from error
    of_arrays = checksum(arrays)
    if header["sha256"] not in (_seal(kind, header["metadata"], of_arrays), of_arrays):
        raise FileError(
            f"{path} is damaged: its content does not match the checksum inside; make it again or restore it"
        )
    return arrays, metadata


def _parse_header(path: Path, header: Mapping[str, str] | None) -> tuple[str, dict[str, Any]]:
    owner, _, kind = (header or {}).get("kind", "").partition(" ")
    if header is None or owner != "gatel0rd":
        raise FileError(f"{path} is a safetensors file of other software; expected one that gatel0rd wrote")
    try:
        metadata = parse_json(header.get("metadata", ""), path)
    except FileError as error:
        raise FileError(f"{path} is damaged: its metadata cannot be read; make it again or restore it") from error
    if "sha256" not in header:
        raise FileError(f"{path} is damaged: it has no checksum; make it again or restore it")
    return kind, metadata
