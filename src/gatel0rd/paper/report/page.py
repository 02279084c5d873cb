"""One self-contained HTML page: text, tables and figures, no request to anywhere."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gatel0rd.paper.report.front import dot, draw_board, draw_claims, name_slug
from gatel0rd.paper.report.judge import Judged
from gatel0rd.paper.report.style import STYLE
from gatel0rd.streams import count_of
from gatel0rd.tables import Table


@dataclass(frozen=True)
class Picture:
    """A figure on disk, and what stands below it.

    Attributes:
        width: at which it is shown, in the page's pixels; as wide as it is if not given.
    """

    path: Path
    caption: str
    width: int | None = None


@dataclass(frozen=True)
class Block:
    """A heading with a table or a picture below it."""

    title: str
    picture: Picture | None = None
    table: Table | None = None


@dataclass(frozen=True)
class ReportSection:
    """What the page says about one experiment at one scale; the scales of an experiment stand below one heading.

    Attributes:
        world: the heading under which experiments stand; empty for none.
        size: profile and preset, in words.
    """

    id: str
    anchor: str
    title: str
    question: str
    claims: Sequence[Judged]
    scale: str
    command: str
    blocks: Sequence[Block]
    note: str = ""
    world: str = ""
    size: str = ""

    @property
    def decided(self) -> int:
        """How many claims are."""
        return sum(claim.finding.decided for claim in self.claims)

    def markdown(self) -> str:
        """The same as Markdown; pictures are links into ``figures/``."""
        where = f"{self.world}: " if self.world else ""
        size = f" ({self.size})" if self.size else ""
        parts = [f"## {where}{self.title}{size} (`{self.id}`)", self.question]
        parts += [f"> The paper: {claim.words} **{claim.finding.verdict}**" for claim in self.claims]
        parts += [f"> {self.note}"] if self.note else []
        parts.append(self.scale)
        for block in self.blocks:
            parts.append(f"**{block.title}**")
            if block.picture is not None:
                parts.append(f"![{block.picture.caption}](figures/{block.picture.path.name})")
            if block.table is not None:
                parts.append(block.table.markdown())
        return "\n\n".join(parts) + "\n"


@dataclass(frozen=True)
class Chapter:
    """An experiment on the page: its sections, one per scale, those that decide most claims first."""

    sections: Sequence[ReportSection]

    @property
    def first(self) -> ReportSection:
        return self.sections[0]

    @property
    def anchor(self) -> str:
        return self.first.id.replace("/", "-")


def group_sections(sections: Sequence[ReportSection]) -> dict[str, list[Chapter]]:
    """World -> its experiments, both in the order in which they come first."""
    by_id: dict[str, list[ReportSection]] = {}
    for section in sections:
        by_id.setdefault(section.id, []).append(section)
    worlds: dict[str, list[Chapter]] = {}
    for own in by_id.values():
        ordered = sorted(own, key=lambda section: -section.decided)
        worlds.setdefault(own[0].world, []).append(Chapter(ordered))
    return worlds


def page(
    title: str, introduction: Sequence[str], judged: Sequence[Judged], sections: Sequence[ReportSection], footer: str
) -> str:
    """The whole report as a string."""
    worlds = group_sections(sections)
    body = "".join(_world(world, chapters) for world, chapters in worlds.items())
    if judged:
        body = f"{draw_board(judged)}{_contents(worlds)}{draw_claims(judged)}{body}"
    else:  # no experiment of the page has claims
        body = f"{_contents(worlds)}{body}"
    return _document(title, introduction, _bar(worlds, judged=bool(judged)), body, footer)


def simple_page(title: str, introduction: Sequence[str], blocks: Sequence[Block], footer: str) -> str:
    """A page of tables and pictures in the report's style."""
    content = "".join(_block(block) for block in blocks)
    return _document(title, introduction, "", f'<section><div class="blocks">{content}</div></section>', footer)


def _document(title: str, introduction: Sequence[str], bar: str, body: str, footer: str) -> str:
    paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in introduction)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<header><div><h1>{html.escape(title)}</h1>{paragraphs}</div></header>{bar}"
        f"<main>{body}<footer>{html.escape(footer)}</footer></main></body></html>\n"
    )


def _bar(worlds: dict[str, list[Chapter]], *, judged: bool) -> str:
    """Links that stay at the top of the window."""
    links = [("#contents", "Contents")]
    if judged:
        links = [("#verdicts", "Verdicts"), *links, ("#claims", "Claims")]
    links += [(f"#{name_slug(world)}", world) for world in worlds if world]
    anchors = "".join(f'<a href="{target}">{html.escape(text)}</a>' for target, text in links)
    return f'<nav class="bar"><div>{anchors}</div></nav>'


def _contents(worlds: dict[str, list[Chapter]]) -> str:
    """Every experiment with a link, by world."""
    if not worlds:
        return ""
    lists = ""
    for world, chapters in worlds.items():
        links = ""
        for chapter in chapters:
            more = len(chapter.sections) - 1
            scales = f" <small>and {count_of(more, 'other scale')}</small>" if more else ""
            dots = "".join(dot(claim.finding.verdict, claim.words) for claim in chapter.first.claims)
            dots = f' <span class="dots">{dots}</span>' if dots else ""
            links += f'<a href="#{chapter.anchor}">{html.escape(chapter.first.title)}{scales}{dots}</a>'
        lists += f"<div><b>{html.escape(world)}</b>{links}</div>"
    return f'<section id="contents"><h2>Contents</h2><nav class="contents">{lists}</nav></section>'


def _world(world: str, chapters: Sequence[Chapter]) -> str:
    heading = f'<h2 class="world" id="{name_slug(world)}">{html.escape(world)}</h2>' if world else ""
    return heading + "".join(_chapter(chapter) for chapter in chapters)


def _chapter(chapter: Chapter) -> str:
    """An experiment: what is asked, the scale that says most, and the others folded up."""
    first, *others = chapter.sections
    folded = "".join(
        f'<details class="scale"><summary>{html.escape(section.size or section.title)}: '
        f"{html.escape(section.scale.partition(';')[0])}"
        f"{''.join(dot(claim.finding.verdict, claim.words) for claim in section.claims)}</summary>"
        f'<div id="{section.anchor}">{_scale(section)}</div></details>'
        for section in others
    )
    inner = "" if first.anchor == chapter.anchor else f' id="{first.anchor}"'
    return (
        f'<section id="{chapter.anchor}"><h2>{html.escape(first.title)}'
        f'<span class="id">{html.escape(first.id)}</span></h2>'
        f"<p>{html.escape(first.question)}</p><div{inner}>{_scale(first)}</div>{folded}</section>"
    )


def _scale(section: ReportSection) -> str:
    """What one scale says."""
    blocks = "".join(_block(block) for block in section.blocks)
    claims = "".join(
        f'<p class="claim">The paper: {html.escape(claim.words)} '
        f"<b>{claim.finding.marked}{dot(claim.finding.verdict)}</b></p>"
        for claim in section.claims
    )
    claims += f'<p class="claim">{html.escape(section.note)}</p>' if section.note else ""
    return (
        f"{claims}"
        f'<p class="note">{html.escape(section.scale)} Run it: <code>{html.escape(section.command)}</code></p>'
        f'<div class="blocks">{blocks}</div>'
    )


def _block(block: Block) -> str:
    content = f"<h3>{html.escape(block.title)}</h3>"
    if block.picture is not None:
        caption = html.escape(block.picture.caption)
        width = "" if block.picture.width is None else f' width="{block.picture.width}"'
        content += f'<figure><img alt="{caption}"{width} src="{_data_uri(block.picture.path)}">'
        content += f"<figcaption>{caption}</figcaption></figure>"
    if block.table is not None:
        content += f'<div class="scroll">{block.table.html()}</div>'
    return f"<div>{content}</div>"


def _data_uri(path: Path) -> str:
    kind = {".svg": "image/svg+xml", ".png": "image/png", ".webp": "image/webp"}[path.suffix]
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
