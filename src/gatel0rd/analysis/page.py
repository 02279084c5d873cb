"""One self-contained HTML page: text, tables and figures, no request to anywhere."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gatel0rd.analysis.tables import Table

STYLE = """
:root { --ink: #23272f; --soft: #667085; --line: #e4e7ec; --accent: #c0392b; --paper: #fdfcfa; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 Georgia, "Times New Roman", serif; }
main, header > div { max-width: 1080px; margin: 0 auto; padding: 0 24px; }
header { background: #23272f; color: #fdfcfa; padding: 40px 0 32px; }
header h1 { margin: 0 0 6px; font-size: 30px; font-weight: normal; }
header p { margin: 4px 0; color: #c9ced6; max-width: 760px; }
nav { margin-top: 16px; display: flex; flex-wrap: wrap; gap: 6px 16px; }
nav a { color: #f0b7ae; text-decoration: none; font-size: 15px; }
section { margin: 44px 0; padding-top: 4px; border-top: 1px solid var(--line); }
h2 { font-size: 23px; font-weight: normal; margin: 20px 0 4px; }
h3 { font: 600 15px/1.4 system-ui, sans-serif; margin: 22px 0 6px; }
.id, code { font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace; }
.id { color: var(--accent); margin-left: 10px; }
.claim { border-left: 3px solid var(--accent); padding: 2px 0 2px 14px; margin: 12px 0; }
.note, footer { color: var(--soft); font: 14px/1.5 system-ui, sans-serif; }
code { background: #f2f0eb; padding: 2px 7px; border-radius: 4px; }
.blocks { display: flex; flex-wrap: wrap; gap: 0 24px; align-items: flex-start; }
.blocks > div { max-width: 100%; }
figure { margin: 8px 0; background: white; border: 1px solid var(--line); border-radius: 6px; padding: 10px; }
figure img { display: block; max-width: 100%; height: auto; }
figcaption { color: var(--soft); font: 13px/1.4 system-ui, sans-serif; padding: 6px 4px 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font: 14px/1.45 system-ui, sans-serif; background: white; margin: 6px 0; }
th, td { border: 1px solid var(--line); padding: 6px 12px; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { background: #f6f4ef; font-weight: 600; }
footer { padding: 24px 0 48px; }
"""


@dataclass(frozen=True)
class Picture:
    """A figure on disk, and what stands below it."""

    path: Path
    caption: str


@dataclass(frozen=True)
class Block:
    """A heading with a table or a picture below it."""

    title: str
    picture: Picture | None = None
    table: Table | None = None


@dataclass(frozen=True)
class Section:
    """What the page says about one experiment at one scale."""

    id: str
    anchor: str
    title: str
    question: str
    claim: str
    scale: str
    command: str
    blocks: Sequence[Block]

    def markdown(self) -> str:
        """The same as Markdown; pictures are links into ``figures/``."""
        parts = [f"## {self.title} (`{self.id}`)", self.question, f"> The paper: {self.claim}", self.scale]
        for block in self.blocks:
            parts.append(f"**{block.title}**")
            if block.picture is not None:
                parts.append(f"![{block.picture.caption}](figures/{block.picture.path.name})")
            if block.table is not None:
                parts.append(block.table.markdown())
        return "\n\n".join(parts) + "\n"


def page(title: str, introduction: Sequence[str], sections: Sequence[Section], footer: str) -> str:
    """The whole page as a string."""
    links = "".join(f'<a href="#{section.anchor}">{html.escape(section.title)}</a>' for section in sections)
    paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in introduction)
    body = "".join(_section(section) for section in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<header><div><h1>{html.escape(title)}</h1>{paragraphs}<nav>{links}</nav></div></header>"
        f"<main>{body}<footer>{html.escape(footer)}</footer></main></body></html>\n"
    )


def _section(section: Section) -> str:
    blocks = "".join(_block(block) for block in section.blocks)
    return (
        f'<section id="{section.anchor}"><h2>{html.escape(section.title)}'
        f'<span class="id">{html.escape(section.id)}</span></h2>'
        f"<p>{html.escape(section.question)}</p>"
        f'<p class="claim">The paper: {html.escape(section.claim)}</p>'
        f'<p class="note">{html.escape(section.scale)} Run it: <code>{html.escape(section.command)}</code></p>'
        f'<div class="blocks">{blocks}</div></section>'
    )


def _block(block: Block) -> str:
    content = f"<h3>{html.escape(block.title)}</h3>"
    if block.picture is not None:
        caption = html.escape(block.picture.caption)
        content += f'<figure><img alt="{caption}" src="{_data_uri(block.picture.path)}">'
        content += f"<figcaption>{caption}</figcaption></figure>"
    if block.table is not None:
        content += f'<div class="scroll">{block.table.html()}</div>'
    return f"<div>{content}</div>"


def _data_uri(path: Path) -> str:
    kind = {".svg": "image/svg+xml", ".png": "image/png"}[path.suffix]
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
