"""What MkDocs does not do by itself: formulas as MathML, made when the site is built, and docstrings as Markdown.

Formulas are written as GitHub reads them: between dollar signs, or in a block of code named ``math``. The site loads no
script for them.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import griffe
from latex2mathml.converter import convert, convert_to_element
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.pages import Page

INLINE = r"(?<![\\$\w])\$(?=[^\s$])([^$\n]*[^\s$\\])\$(?![\w$])"
"""A formula in a line: no blank inside the dollar signs, no letter or digit outside, so that prices stay prices."""

ELSEWHERE = {"results/README.md": "results/report.md"}
"""Files of the repository, and the pages of the site that hold the same."""


class InlineFormula(InlineProcessor):
    """``$h_t$`` as MathML."""

    def handleMatch(  # type: ignore[override]
        self, m: re.Match[str], data: str
    ) -> tuple[ElementTree.Element, int, int]:
        return convert_to_element(m.group(1)), m.start(0), m.end(0)


class Formulas(Extension):
    """Formulas between dollar signs."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(InlineFormula(INLINE, md), "formula", 185)  # after code, before backslashes


def to_mathml(line: str) -> str:
    """A line of LaTeX as MathML; some signs are letters to the converter, and stand too close."""
    return convert(line.strip().replace("⊙", r"\odot ").replace(r"\tanh ", r"\tanh \, "), display="block")


def format_formula(source: str, *_: Any, **__: Any) -> str:
    """A block of code named ``math`` as MathML; its lines end with two backslashes, but for the last."""
    return '<div class="formula">' + "".join(map(to_mathml, source.split("\\\\\n"))) + "</div>"


@event_priority(100)  # before mkdocstrings copies the list of extensions
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.markdown_extensions.append(Formulas())  # type: ignore[arg-type]
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {})
    fences["custom_fences"] = [{"name": "math", "class": "formula", "format": format_formula}]
    return config


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links to files outside of the documentation, as GitHub shows them, to the pages that hold the same here."""
    up = "../" * page.file.src_uri.count("/")
    for outside, inside in ELSEWHERE.items():
        markdown = markdown.replace(f"](../{up}{outside})", f"]({up}{inside})")
    return markdown


def link_name(match: re.Match[str], home: str) -> str:
    """A reference to another object of the package, linked if it has a place in the reference."""
    path = match.group(2).lstrip("~")
    shown = path.rpartition(".")[2] if path.startswith("gatel0rd.") else path
    target = path if path.startswith("gatel0rd.") else f"{home}.{path}"
    return f'<autoref identifier="{target}" optional><code>{shown}</code></autoref>'


def to_markdown(text: str, home: str) -> str:
    """A docstring in PyTorch's dialect, as Markdown; short names in it belong to the module ``home``."""
    text = re.sub(
        r"^\.\. math::([ ]+\S.*\n|\n(?:[ ]+.*\n|\n)+)",
        lambda match: "```math\n" + " ".join(match.group(1).split()).replace(r",\quad ", ",\\\\\n") + "\n```\n\n",
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(r":math:`([^`]+)`", r"$\1$", text)
    text = re.sub(r":(class|func|meth|mod|attr|data):`([^`]+)`", lambda match: link_name(match, home), text)
    text = re.sub(r"^(Inputs|Outputs): (?=.)", r"\1: \1: ", text, flags=re.MULTILINE)  # kind and title of a box
    return re.sub(r"^Examples?::?$", "Examples:", text, flags=re.MULTILINE)


class MarkdownDocstrings(griffe.Extension):
    """Turns every docstring into Markdown before it is split into sections."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value, obj.module.path)
