"""One self-contained HTML page: text, tables and figures, no request to anywhere."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gatel0rd.paper.claims import VERDICTS, Verdict
from gatel0rd.paper.report.judge import Judged, count_verdicts, count_words
from gatel0rd.tables import Table

STYLE = """
:root { --ink: #23272f; --soft: #667085; --line: #e4e7ec; --accent: #c0392b; --paper: #fdfcfa; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 Georgia, "Times New Roman", serif; }
main, header > div { max-width: 1080px; margin: 0 auto; padding: 0 24px; }
header { background: #23272f; color: #fdfcfa; padding: 40px 0 32px; }
header h1 { margin: 0 0 6px; font-size: 30px; font-weight: normal; }
header p { margin: 4px 0; color: #c9ced6; max-width: 760px; }
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
.counts { display: flex; flex-wrap: wrap; gap: 12px; margin: 28px 0 8px; font-family: system-ui, sans-serif; }
.counts div { background: white; border: 1px solid var(--line); border-radius: 6px; padding: 8px 18px 10px; }
.counts b { display: block; font-size: 26px; font-weight: 600; line-height: 1.2; }
.counts span, .board, .claims { font-size: 14px; }
.board { display: grid; grid-template-columns: max-content 1fr; gap: 8px 18px; align-items: start; margin: 18px 0;
  font-family: system-ui, sans-serif; }
.board > b { font-weight: 600; padding-top: 4px; }
.board > div { display: flex; flex-wrap: wrap; gap: 6px; }
.board a { color: var(--ink); text-decoration: none; background: white; border: 1px solid var(--line);
  border-radius: 5px; padding: 3px 9px; font-size: 13px; }
.board a:hover { border-color: var(--soft); }
i.dot { display: inline-block; width: 10px; height: 10px; border-radius: 50%; margin-left: 5px; }
.holds { background: #2e8b57; } .does-not-hold { background: #c0392b; }
.not-enough-seeds { background: #e0a526; } .not-run { background: #d0d5dd; }
.claims td { white-space: normal; text-align: left; vertical-align: top; } .claims th { text-align: left; }
.claims td.verdict { white-space: nowrap; }
.claims details { color: var(--soft); font-size: 13px; }
.claims { width: 100%; }
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
class ReportSection:
    """What the page says about one experiment at one scale."""

    id: str
    anchor: str
    title: str
    question: str
    claims: Sequence[Judged]
    scale: str
    command: str
    blocks: Sequence[Block]
    note: str = ""

    def markdown(self) -> str:
        """The same as Markdown; pictures are links into ``figures/``."""
        parts = [f"## {self.title} (`{self.id}`)", self.question]
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


def verdict_table(judged: Sequence[Judged]) -> Table:
    """Every claim with its verdict, as a table of text."""
    rows = [
        [claim.artefacts, claim.words, f"**{claim.finding.verdict}**", claim.scale, claim.finding.evidence]
        for claim in judged
    ]
    return Table(["in the paper", "the paper's claim", "verdict", "seeds and scale", "our numbers"], rows, prose=True)


def verdicts_markdown(judged: Sequence[Judged]) -> str:
    """How many claims hold, and the table of all that were tested."""
    tested = [claim for claim in judged if claim.finding.verdict != "not run"]
    return f"**{count_words(judged)}** {RULE}\n\n{verdict_table(tested).markdown()}"


def _verdicts(judged: Sequence[Judged]) -> str:
    """The first screen: how many claims hold, a board of all experiments with a dot per claim, then every claim."""
    counts = "".join(
        f"<div><b>{count}</b><span>{VERDICTS[verdict]}{_dot(verdict)}</span></div>"
        for verdict, count in count_verdicts(judged).items()
    )
    board = ""
    for world in dict.fromkeys(claim.world for claim in judged):
        chips = ""
        for id in dict.fromkeys(claim.id for claim in judged if claim.world == world):
            own = [claim for claim in judged if claim.id == id and claim.world == world]
            target = next((claim.anchor for claim in own if claim.anchor), "claims")
            dots = "".join(_dot(claim.finding.verdict, claim.words) for claim in own)
            chips += f'<a href="#{target}" title="{html.escape(id)}">{html.escape(own[0].artefacts)}{dots}</a>'
        board += f"<b>{html.escape(world)}</b><div>{chips}</div>"
    rows = ""
    for claim in judged:
        place = html.escape(claim.artefacts)
        place = f'<a href="#{claim.anchor}">{place}</a>' if claim.anchor else place
        details = f"<details><summary>our numbers</summary>{html.escape(claim.finding.evidence)}</details>"
        rows += (
            f"<tr><td>{html.escape(claim.world)}<br>{place}</td><td>{html.escape(claim.words)}"
            f"{details if claim.finding.evidence else ''}</td>"
            f'<td class="verdict">{_dot(claim.finding.verdict)} {claim.finding.verdict}</td>'
            f"<td>{html.escape(claim.scale)}</td></tr>"
        )
    head = "<tr><th>where</th><th>the paper's claim</th><th>verdict</th><th>seeds and scale</th></tr>"
    return (
        f'<div class="counts">{counts}</div><div class="board">{board}</div>'
        f'<section id="claims"><h2>Every claim</h2><p class="note">{RULE}</p>'
        f'<table class="claims"><thead>{head}</thead><tbody>{rows}</tbody></table></section>'
    )


RULE = (
    "A claim is tested as inequalities between means over seeds. It holds if the 95 % bootstrap interval of every "
    "difference lies on the claimed side; it does not hold if one lies on the other side, or includes zero with as "
    "many seeds as in the paper; otherwise, or with fewer than three seeds, there are not enough seeds. Learning rates "
    "and numbers of layers are compared by their means, as in the paper. The verdict is about our runs at their scale."
)


def _dot(verdict: Verdict, words: str = "") -> str:
    title = html.escape(f"{verdict}: {words}" if words else verdict)
    return f'<i class="dot {verdict.replace(" ", "-")}" title="{title}"></i>'


def page(
    title: str, introduction: Sequence[str], judged: Sequence[Judged], sections: Sequence[ReportSection], footer: str
) -> str:
    """The whole page as a string."""
    paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in introduction)
    body = "".join(_section(section) for section in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<header><div><h1>{html.escape(title)}</h1>{paragraphs}</div></header>"
        f"<main>{_verdicts(judged)}{body}<footer>{html.escape(footer)}</footer></main></body></html>\n"
    )


def _section(section: ReportSection) -> str:
    blocks = "".join(_block(block) for block in section.blocks)
    claims = "".join(
        f'<p class="claim">The paper: {html.escape(claim.words)} '
        f"<b>{claim.finding.verdict}{_dot(claim.finding.verdict)}</b></p>"
        for claim in section.claims
    )
    claims += f'<p class="claim">{html.escape(section.note)}</p>' if section.note else ""
    return (
        f'<section id="{section.anchor}"><h2>{html.escape(section.title)}'
        f'<span class="id">{html.escape(section.id)}</span></h2>'
        f"<p>{html.escape(section.question)}</p>"
        f"{claims}"
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
