"""The documentation as a site: it builds without a warning, no link is dead, and no page asks another server."""

from __future__ import annotations

import logging
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = ("report.md", "verdicts.md")  # made by `make docs` from the records, which takes minutes


class Page(HTMLParser):
    """Ids, links and what a browser loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in ("script", "img", "iframe", "source", "video") and values.get("src"):
            self.loaded.append(values["src"])
        if tag == "link" and values.get("rel") != "canonical" and values.get("href"):
            self.loaded.append(values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Every page by its path; the site is built from a copy, with short pages in place of those that records make."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    source, out = tmp_path_factory.mktemp("docs") / "docs", tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("results", ".results"))
    (source / "results").mkdir()
    for name in GENERATED:
        (source / "results" / name).write_text("# Results\n")
    warned = []

    class Keeper(logging.Handler):
        def emit(self, record):
            warned.append(record.getMessage())

    keeper = Keeper(logging.WARNING)
    logging.getLogger("mkdocs").addHandler(keeper)
    try:
        config = load_config(str(ROOT / "mkdocs.yml"), docs_dir=str(source), site_dir=str(out))
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
    finally:
        logging.getLogger("mkdocs").removeHandler(keeper)
    assert not warned
    return {path: Page(path.read_text()) for path in sorted(out.rglob("*.html")) if path.name != "404.html"}


def resolve(page: Path, link: str) -> tuple[Path, str]:
    """The file that a link of a page leads to, and the place in it."""
    parts = urlsplit(link)
    target = page if not parts.path else (page.parent / unquote(parts.path)).resolve()
    return target / "index.html" if target.is_dir() else target, unquote(parts.fragment)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_no_link_is_dead(site):
    count = 0
    for path, page in site.items():
        for link in page.links:
            if urlsplit(link).scheme:
                continue
            target, place = resolve(path, link)
            assert target.exists(), f"{path} links to {link}"
            if place and target in site:
                assert place in site[target].ids or place.startswith("__"), f"{path} links to {link}"
            count += 1
    assert len(site) > 25 and count > 2000


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_no_page_asks_another_server_for_anything(site):
    for path, page in site.items():
        for link in page.loaded:
            assert not urlsplit(link).netloc, f"{path} loads {link}"
            assert resolve(path, link)[0].exists(), f"{path} loads {link}"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_formulas_are_rendered_without_a_script(site):
    (layer,) = (page for path, page in site.items() if path.parent.name == "layer")
    (reference,) = (page for path, page in site.items() if path.parent.name == "nn")
    for page in (layer, reference):
        assert page.tags.count("math") >= 6 and "merror" not in page.tags
    for path, page in site.items():
        assert not any("math" in link.lower() or "katex" in link.lower() for link in page.loaded), path


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_roles_and_directives_of_docstrings_do_not_show(site):
    for path in site:
        if "api" in path.parts:
            text = path.read_text()
            assert ":class:" not in text and ":func:" not in text and ".. math" not in text, path
