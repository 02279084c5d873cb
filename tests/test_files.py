"""Files that are written whole or not at all, and locks of directories."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save

from gatel0rd.files import (
    FileError,
    WriteError,
    checksum,
    exclusive,
    find_files,
    load_arrays,
    read_json,
    save_arrays,
    write_atomically,
    write_sealed_json,
)

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


def test_a_directory_that_cannot_be_made_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        message = rf"{place} cannot be written: .*; a file is in the way of a directory"
        with pytest.raises(WriteError, match=message), exclusive(place):
            pass


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has another module for locks")
def test_a_file_system_without_locks_is_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    def refuse(file, flags):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    with (
        pytest.raises(WriteError, match="lock cannot be locked: Function not implemented; choose"),
        exclusive(tmp_path),
    ):
        pass


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


def test_links_are_followed_and_permissions_stay(tmp_path):
    target, link = tmp_path / "there" / "file", tmp_path / "link"
    target.parent.mkdir()
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink() and target.read_text() == "new" and stat.S_IMODE(target.stat().st_mode) == 0o640
    assert [path.name for path in target.parent.iterdir()] == ["file"]
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "made")
    write_atomically(dangling, "x")
    assert dangling.is_symlink() and (tmp_path / "made").read_text() == "x"


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_new_files_respect_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask


def test_devices_and_pipes_are_written_through(tmp_path):
    write_atomically(Path("/dev/null"), "x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    content = b"x" * 200_000  # more than a pipe holds at a time
    write_atomically(pipe, content)
    reader.join()
    assert found == [content] and stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(FileError, match=r"/dev/full cannot be written: No space left on device; free some space"):
        write_atomically(Path("/dev/full"), "x")


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")

    def fail(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(FileError, match="file cannot be written: No space left on device"):
        write_atomically(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


KILLED = """
import os, sys, pathlib
import gatel0rd.files as files
os.fsync = lambda handle: os.kill(os.getpid(), 9)
files.write_atomically(pathlib.Path(sys.argv[1]), "half")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_files_are_found_behind_links_each_once(tmp_path):
    """As where the runs of a world are on another disk."""
    for place in ("disk/rrc/a", "runs/billiard/b"):
        write_atomically(tmp_path / place / "record.json", "{}")
    write_atomically(tmp_path / "runs" / "x-record.json", "{}")
    (tmp_path / "runs" / "rrc").symlink_to(tmp_path / "disk" / "rrc")
    (tmp_path / "runs" / "rrc" / "loop").symlink_to(tmp_path / "runs")
    (tmp_path / "runs" / "same").symlink_to("billiard")
    places = ["runs/billiard/b/record.json", "runs/rrc/a/record.json"]
    assert find_files(tmp_path / "runs", "record.json") == [tmp_path / place for place in places]
    assert tmp_path / "runs" / "x-record.json" in find_files(tmp_path / "runs", "*record.json")
    assert find_files(tmp_path / "none", "*") == []


def test_what_a_killed_process_left_is_removed(tmp_path):
    path = tmp_path / "file"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert len(list(tmp_path.iterdir())) == 1 and not path.exists()
    write_atomically(path, "whole")
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "whole"


def test_names_may_be_as_long_as_the_system_allows(tmp_path):
    write_atomically(tmp_path / ("x" * 255), "content")
    with pytest.raises(FileError, match="choose a shorter name"):
        write_atomically(tmp_path / ("x" * 256), "content")


def test_metadata_is_part_of_the_checksum(tmp_path):
    path = tmp_path / "file"
    save_arrays(path, {"x": np.arange(3.0)}, kind="model", metadata={"gate": "retanh"})
    assert load_arrays(path, kind="model")[1] == {"gate": "retanh"}
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"retanh", b"retinh"))
    with pytest.raises(FileError, match="does not match the checksum"):
        load_arrays(path, kind="model")
    for place in range(8, len(whole)):  # every byte after the header's length
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(FileError):
            load_arrays(path, kind="model")


def test_files_of_earlier_versions_are_read(tmp_path):
    arrays = {"x": np.arange(3.0)}
    header = {"kind": "gatel0rd model", "sha256": checksum(arrays), "metadata": json.dumps({"seed": 1})}
    (tmp_path / "file").write_bytes(save(arrays, metadata=header))
    assert load_arrays(tmp_path / "file", kind="model")[1] == {"seed": 1}


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "{", '{"a": ' + "9" * 400 + "}", '{"a":' * 100_000 + "1" + "}" * 100_000, "\udcff"]
)
def test_json_of_another_form_is_an_error_that_names_the_file(tmp_path, text):
    path = tmp_path / "file.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(FileError, match=r"file\.json (is damaged|cannot be read)"):
        read_json(path)


def test_no_byte_of_a_sealed_file_changes_unnoticed(tmp_path):
    path = tmp_path / "file.json"
    content = {"loss": 0.125, "names": ["a", "λ"], "sizes": {"3": 4, "10": None}}
    write_sealed_json(path, {**content, "sizes": {3: 4, 10: None}})
    assert read_json(path) == content
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            try:
                assert read_json(path) == content  # a space became a line break
            except FileError:
                continue


@pytest.mark.parametrize("levels", [101, 990, 100_000])
def test_json_that_is_nested_deeply_is_refused_before_anything_follows_it(tmp_path, levels):
    path = tmp_path / "file.json"
    path.write_text('{"a":' + "[" * levels + "]" * levels + "}")
    with pytest.raises(FileError, match="it is nested too deeply"):
        read_json(path)
