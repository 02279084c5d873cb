"""Modules as one script: what is put together, and what is refused."""

from __future__ import annotations

import re

import pytest

from gatel0rd.explore.assets import DIRECTORY, ENTRY, list_assets
from gatel0rd.explore.bundle import BundleError, bundle_directory, bundle_modules

MODULES = {
    "main.js": 'import { twice, SIZE as size } from "./deep.js";\nimport {\n  Box,\n  load,\n} from "./box.js";\n'
    "const loaded = load(new Box(twice(size)));\nloaded.then((value) => { document.title = String(value); });\n",
    "box.js": 'import { twice } from "./deep.js";\nexport class Box { constructor(x) { this.x = twice(x); } }\n'
    "export async function load(box) { return box.x; }\n",
    "deep.js": "let calls = 0;\nexport const SIZE = 5;\nconst hidden = () => calls;\n"
    "export function twice(x) { calls += 1; return 2 * x + hidden(); }\n",
}


def test_every_module_is_there_once_after_those_that_it_imports():
    script = bundle_modules(MODULES.__getitem__, "main.js")
    assert re.findall(r'^modules\["(.*)"\] =', script, re.MULTILINE) == ["deep.js", "box.js", "main.js"]
    assert 'const { twice, SIZE: size } = modules["deep.js"];' in script
    assert "return { SIZE, twice };" in script and "return { Box, load };" in script
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)


@pytest.mark.browser
def test_a_bundle_does_what_the_modules_do(page):
    page.set_content("<title>waits</title>")
    page.add_script_tag(content=bundle_modules(MODULES.__getitem__, "main.js"))
    page.wait_for_function("document.title !== 'waits'")
    assert page.title() == "24"  # 2 * (2 * 5 + 1) + 2
    assert page.evaluate("typeof twice + typeof modules + typeof SIZE") == "undefined" * 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('import { x } from "./main.js";', r"in a circle: main\.js -> main\.js"),
        ('import { nothing } from "./deep.js";', "imports nothing from deep.js, which does not export it"),
        ('import deep from "./deep.js";', "main.js has 'import deep"),
        ('import * as deep from "./deep.js";', "expected imports of names"),
        ('import { x } from "https://elsewhere/deep.js";', "expected imports of names"),
        ('const later = import("./deep.js");', "main.js has 'import"),
        ("export default 3;", "main.js has 'export default 3;'"),
        ("export let x = 3;", "exports of functions, classes and constants"),
        ("const x = 3;\nexport { x };", "exports of functions"),
    ],
)
def test_what_cannot_be_bundled_is_refused(source, message):
    with pytest.raises(BundleError, match=message):
        bundle_modules({**MODULES, "main.js": source}.__getitem__, "main.js")


def test_longer_circles_are_named():
    modules = {f"{a}.js": f'import {{ {b} }} from "./{b}.js";\nexport const {a} = 1;' for a, b in ("ab", "bc", "ca")}
    with pytest.raises(BundleError, match=r"a\.js -> b\.js -> c\.js -> a\.js"):
        bundle_modules(modules.__getitem__, "a.js")


def test_the_page_uses_all_its_modules():
    script = bundle_directory(DIRECTORY, ENTRY)
    assert sorted(re.findall(r'^modules\["(.*)"\] =', script, re.MULTILINE)) == [
        name for name, _ in list_assets() if name.endswith(".js")
    ]


def test_the_page_knows_no_world():
    text = bundle_directory(DIRECTORY, ENTRY).lower()
    for word in ("rrc", "shepherd", "billiard", "robot", "sheep", "cage", "ball", "pocket", "computer", "grasp"):
        assert word not in text
