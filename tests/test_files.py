"""Locks of directories."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from gatel0rd.files import FileError, exclusive

HOLD = """
import sys, time, pathlib
from gatel0rd.files import exclusive
with exclusive(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_directory_in_use_by_another_process_is_an_error(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(FileError, match="is in use by another process"), exclusive(tmp_path):
            pass
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    with exclusive(tmp_path):
        pass


def test_another_name_is_another_lock_and_patience_ends(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        with exclusive(tmp_path, name=".other.lock"):
            pass
        begin = time.monotonic()
        with pytest.raises(FileError, match="is in use by another process"), exclusive(tmp_path, 0.3):
            pass
        assert 0.3 <= time.monotonic() - begin < 5
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_an_error_inside_releases_the_lock(tmp_path):
    with pytest.raises(KeyError), exclusive(tmp_path / "made"):
        raise KeyError
    with exclusive(tmp_path / "made"):
        pass


def test_windows_has_a_lock_of_its_own(tmp_path, monkeypatch):
    held: list[int] = []

    def locking(descriptor, mode, count):
        assert (mode, count) == (2, 1)
        if held:
            raise PermissionError(13, "Permission denied")  # as Windows says it
        held.append(descriptor)

    monkeypatch.setattr("gatel0rd.files.sys", SimpleNamespace(platform="win32"))
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    monkeypatch.setitem(sys.modules, "fcntl", None)  # importing it fails
    with exclusive(tmp_path):
        assert len(held) == 1
        with pytest.raises(FileError, match="is in use by another process"), exclusive(tmp_path):
            pass


def test_nothing_imports_what_one_platform_alone_has(tmp_path):
    """On Windows there is no fcntl: no module may need it to be imported."""
    code = """
import sys
sys.modules["fcntl"] = None
import gatel0rd.cli.main, gatel0rd.engine, gatel0rd.paper.execute, gatel0rd.worlds.data
"""
    subprocess.run([sys.executable, "-c", code], check=True)
