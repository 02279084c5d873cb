"""Records of older versions become records of this one, in directories that are named as this one names them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gatel0rd.files import FileError, exclusive, find_files, read_json, write_sealed_json
from gatel0rd.paper.run import Run
from gatel0rd.paper.schema import KINDS, parse_run, upgrade


@dataclass(frozen=True)
class Migration:
    """A record, and what becomes of it.

    Attributes:
        path: where it is.
        directory: where it belongs.
        content: what it should say.
        current: whether it says that already.
    """

    path: Path
    directory: Path
    content: dict[str, Any]
    current: bool


def migrate(source: Path, to: Path | None = None, *, measure: bool = False) -> tuple[int, int]:
    """Bring every ``record.json`` below a directory up to date; returns how many were changed, and how many there are.

    Runs keep their numbers: only the description of the run, its identity and the name of its directory change. A file
    that is no record is an error, and then nothing is changed at all. Doing it twice changes nothing the second time.

    Args:
        source: a directory with runs, or with records only.
        to: where to write the records, so that the source is left as it is; in place if not given.
        measure: add what older versions did not measure, where the run's model is still there.
    """
    if not source.is_dir():
        raise FileError(f"{source} is not a directory; give one with records, as results/ or runs/")
    paths = find_files(source, "record.json")
    migrations = [examine(path, source, source if to is None else to) for path in paths]
    check_distinct(migrations)
    if measure:
        migrations = [complete(migration, source / "data") for migration in migrations]
    if to is None:
        changed = [move(migration) for migration in migrations]
    else:
        changed = [copy(migration) for migration in migrations]
    return sum(changed), len(migrations)


def examine(path: Path, source: Path, target: Path) -> Migration:
    """What becomes of a record below ``source`` when records go below ``target``."""
    try:
        content = read_json(path)
        before = str(content["group"])
    except (ValueError, KeyError) as error:
        raise FileError(f"{path} is not a record ({error!r}); restore it, or delete it and run again") from error
    upgraded = upgrade(content, path)
    run = parse_run(upgraded, path, KINDS[upgraded["kind"]])
    upgraded = {name: run.group if name == "group" else value for name, value in upgraded.items()}
    place = path.parent.relative_to(source)
    # a directory with a name of somebody's choice keeps it
    if place.name == directory_name(run, before):
        place = place.with_name(directory_name(run, run.group))
    return Migration(path, target / place, upgraded, upgraded == content)


def complete(migration: Migration, data: Path) -> Migration:
    """The same with all measures that this version knows; those of an earlier copy are used again."""
    from gatel0rd.paper.execute import add_missing_measures

    content, path = migration.content, migration.directory / "record.json"
    if path != migration.path and path.exists():
        earlier = read_json(path)
        same = all(earlier.get(name) == value for name, value in content.items() if name not in ("code", "measures"))
        if same and "latents" in earlier.get("measures", {}):
            return replace(migration, content={**content, **{n: earlier[n] for n in ("code", "measures")}})
    completed = add_missing_measures(content, migration.path.parent, data=data)
    return replace(migration, content=completed, current=migration.current and completed is content)


def directory_name(run: Run, group: str) -> str:
    """What the directory of a run is called, given what its group was called at the time."""
    return f"{run.network}-seed{run.seed}-{group}"


def check_distinct(migrations: Iterable[Migration]) -> None:
    """Two records for the same place are an error."""
    owners: dict[Path, Path] = {}
    for migration in migrations:
        first = owners.setdefault(migration.directory, migration.path)
        if first != migration.path:
            raise FileError(f"{first} and {migration.path} are of the same run; delete one of them")


def move(migration: Migration) -> bool:
    """Rename the directory, and then rewrite the record: after an interruption the same again completes it."""
    directory = migration.path.parent
    moved = directory != migration.directory
    if moved and migration.directory.exists():
        raise FileError(f"{directory} should become {migration.directory}, which exists already; delete one of them")
    # runs leave a lock, which tells whether a process is at work there; collected records do not have one
    with exclusive(directory) if (directory / "lock").exists() else nullcontext():
        if moved:
            directory.rename(migration.directory)
        if not migration.current:
            write_sealed_json(migration.directory / "record.json", migration.content)
    return moved or not migration.current


def copy(migration: Migration) -> bool:
    """Write the record where it belongs, unless the same one is there, or one that was planned with, as this was not.

    A campaign that trains a run again may not have come to planning with it yet.
    """
    path = migration.directory / "record.json"
    if path.exists():
        there = read_json(path)
        if there == migration.content or ("planning" in there and "planning" not in migration.content):
            return False
    write_sealed_json(path, migration.content)
    return True
