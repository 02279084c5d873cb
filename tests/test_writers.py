"""Every writer on a disk that is full: the old file stays, nothing is left behind, and the error names the file."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import gatel0rd
from gatel0rd import WorldModel, WorldModelConfig
from gatel0rd.explore import save_page
from gatel0rd.files import WriteError, save_arrays, write_atomically, write_json
from gatel0rd.integrations.onnx import export_onnx
from gatel0rd.models.fitted import wrap_model
from gatel0rd.models.io import save_fitted
from gatel0rd.paper.films import write_film
from gatel0rd.paper.report import figures
from gatel0rd.recordings import from_arrays

SOURCE = Path(gatel0rd.__file__).parent


@contextmanager
def limited_files(where):
    """No file may have more than 100 bytes. Python would cut off the modules that it compiles, so it keeps none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    keeps_no_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = keeps_no_bytecode


@contextmanager
def full_disk(where):
    """Not a byte is left on the disk."""
    filler = where / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        filler.unlink()


def mount(directory):
    """Make a small disk of a directory; says whether that is permitted here."""
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(directory)]
    return which("mount") is not None and subprocess.run(command, capture_output=True).returncode == 0


def may_mount():
    with TemporaryDirectory() as directory:
        done = mount(directory)
        if done:
            subprocess.run(["umount", directory], check=True)
        return done


@pytest.fixture
def disk(tmp_path):
    """A small disk, where one may be made; a directory otherwise."""
    done = mount(tmp_path)
    yield tmp_path
    if done:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


FULL = {"File too large": limited_files} | ({"No space left on device": full_disk} if may_mount() else {})
"""Ways in which a disk is full: the second needs the right to mount one."""


def model():
    return wrap_model(WorldModel(WorldModelConfig(observation_size=2, action_size=0)))


def figure():
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(1, 1))


def frames():
    return [np.full((20, 30, 3), shade, np.uint8) for shade in (0, 90, 200)]


WRITERS = {
    "text.txt": lambda out: write_atomically(out, "x" * 500),
    "data.json": lambda out: write_json(out, list(range(500))),
    "arrays.safetensors": lambda out: save_arrays(out, {"a": np.zeros(99)}, kind="dataset", metadata={}),
    "figure.png": lambda out: figures.save(figure(), out.with_suffix("")),
    "figure.svg": lambda out: figures.save_as(figure(), out),
    "film.gif": lambda out: write_film(frames(), out),
    "film.webp": lambda out: write_film(frames(), out),
    "page.html": lambda out: save_page([("m", model())], from_arrays(np.ones((3, 9, 2))), out),
    "step.onnx": lambda out: export_onnx(model(), out.parent),
    "model.safetensors": lambda out: save_fitted(out.parent, model()),
}


@pytest.mark.parametrize("error", FULL)
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_what_was_there(name, error, disk):
    path, write = disk / name, WRITERS[name]
    path.write_bytes(b"old")
    with FULL[error](disk), pytest.raises(WriteError, match=f"cannot be written: {error}"):
        write(path)
    assert path.read_bytes() == b"old" and not list(disk.glob(".*"))
    write(path)
    assert path.read_bytes() != b"old"


def test_only_one_module_opens_files_for_writing():
    """All others write through it, so that nothing is ever half written."""
    allowed = {"files.py", "engine/triton/offline.py", "training/loop.py"}  # a scratch file, and appended lines
    found = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, (ast.Attribute, ast.Name)):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
                modes = [entry.value for entry in node.args if isinstance(entry, ast.Constant)]
                opens = name == "open" and any(isinstance(mode, str) and set(mode) & set("wax") for mode in modes)
                if opens or name in ("write_text", "write_bytes", "savez", "save_file", "imsave", "mimsave"):
                    found[str(path.relative_to(SOURCE))] = name
    assert set(found) <= allowed, found
    assert "files.py" in found
