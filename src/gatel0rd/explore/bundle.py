"""The page's modules as one script: browsers refuse to import modules from a page that was opened as a file.

Modules are ours, so a small part of the language is enough: imports of names from a neighbour
(``import { a, b as c } from "./file.js";``), and exports of functions, classes and constants where they are defined.
Everything else is an error, as are cycles and names that are not exported.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"\./([\w-]+\.js)";', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:(?:async )?function|class|const) (\w+))", re.MULTILINE)
OTHER = re.compile(r"^(?:import|export)\b.*|\bimport\s*\(.*|\bimport\.meta\b.*", re.MULTILINE)


class BundleError(ValueError):
    """Modules that cannot be put into one script; the message names the module and what is wrong."""


def bundle_modules(read: Callable[[str], str], entry: str) -> str:
    """One classic script that does what the module ``entry`` does with all that it imports.

    Every module becomes a function that is called once and returns what the module exports.

    Args:
        read: the source of a module, by its file's name.
        entry: the file that is run.
    """
    exports: dict[str, list[str]] = {}
    parts: list[str] = []

    def add(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise BundleError(f"modules import each other in a circle: {' -> '.join((*path, name))}")
        if name in exports:
            return
        source = read(name)
        for names, other in IMPORT.findall(source):
            add(other, (*path, name))
            for imported in _split_names(names):
                if imported.split(" as ")[0] not in exports[other]:
                    raise BundleError(f"{name} imports {imported} from {other}, which does not export it")
        exports[name] = EXPORT.findall(source)
        parts.append(_wrap(name, source, exports[name]))

    add(entry, ())
    return '(() => {\n"use strict";\nconst modules = {};\n' + "".join(parts) + "})();\n"


def bundle_directory(directory: Path, entry: str) -> str:
    """:func:`bundle_modules` of files in one directory."""
    return bundle_modules(lambda name: (directory / name).read_text(encoding="utf-8"), entry)


def _split_names(names: str) -> list[str]:
    return [" ".join(name.split()) for name in names.split(",") if name.strip()]


def _wrap(name: str, source: str, exported: list[str]) -> str:
    def destructure(match: re.Match[str]) -> str:
        names = ", ".join(imported.replace(" as ", ": ") for imported in _split_names(match[1]))
        return f'const {{ {names} }} = modules["{match[2]}"];'

    body = EXPORT.sub("", IMPORT.sub(destructure, source))
    if unknown := OTHER.search(body):
        raise BundleError(
            f"{name} has {unknown[0]!r}; expected imports of names from a neighbour, and exports of functions, classes "
            "and constants where they are defined"
        )
    return f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {", ".join(exported)} }};\n}})();\n'
