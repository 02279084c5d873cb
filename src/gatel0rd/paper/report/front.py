"""The first screen of a report, and the table of claims: what is decided comes first."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from gatel0rd.paper.claims import DECIDED, SINGULAR, VERDICTS, Verdict
from gatel0rd.paper.report.judge import TESTED, Judged, count_verdicts, count_words
from gatel0rd.streams import count_of
from gatel0rd.tables import Table

RULE = (
    "A claim is tested as inequalities between means over seeds. It holds if the 95 % bootstrap interval of every "
    "difference lies on the claimed side; it does not hold if one lies on the other side, or includes zero with as "
    "many seeds as in the paper; otherwise, or with fewer than three seeds, there are not enough seeds. The verdict "
    "is about our runs at their scale: the largest with three seeds. With few seeds the bootstrap is too sure of "
    "itself: of two networks that are equal it says that one is better in about 20 % of the cases with three seeds, in "
    "12 % with five, and in 8 % with ten (simulated, normal distributions). A dagger (†) marks verdicts that rest on "
    "it alone: by Student's t, which is right in about 95 %, they would be others. Learning rates and numbers of "
    "layers are compared by their means, as in the paper. Not enough training: no network learned the task, so that "
    "comparing them says nothing. Not measured: the records are of a version that did not measure it. Networks "
    "missing: some that the claim is about were not trained at that scale."
)


def dot(verdict: Verdict, words: str = "") -> str:
    """A coloured dot that says the verdict, and on what, when the mouse is over it."""
    title = html.escape(f"{verdict}: {words}" if words else verdict)
    return f'<i class="dot {verdict.replace(" ", "-")}" title="{title}"></i>'


def name_slug(name: str) -> str:
    """A name as part of a link."""
    return "world-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def shorten_artefacts(artefacts: str) -> str:
    """``Fig. 3c, Fig. 3d, Table 2`` as ``Fig. 3c, 3d, Table 2``."""
    words, kind = [], ""
    for artefact in artefacts.split(", "):
        own, _, number = artefact.rpartition(" ")
        words.append(number if own == kind else artefact)
        kind = own
    return ", ".join(words)


def describe_world(judged: Sequence[Judged]) -> str:
    """One sentence on the claims about a world: how many hold, with how many seeds, and why others are undecided."""
    counts = count_verdicts(judged)
    seeds = sorted({claim.finding.seeds for claim in judged if claim.finding.decided})
    if seeds:
        holds, fails = counts["holds"], counts["does not hold"]
        spread = " to ".join(str(count) for count in dict.fromkeys((seeds[0], seeds[-1])))
        sentence = f"Of {count_of(len(judged), 'verdict')} "
        sentence += f"{holds} hold{'s' * (holds == 1)}"
        sentence += f" and {fails} do{'es' * (fails == 1)} not" if fails else ""
        sentence += f", with {spread} seeds"
    elif len(judged) == 1:
        sentence = "The only verdict is undecided"
    else:
        sentence = f"None of {len(judged)} verdicts is decided"
    gaps = [
        f"{count} {(SINGULAR if count == 1 else VERDICTS)[verdict]}"
        for verdict, count in counts.items()
        if verdict not in DECIDED
    ]
    return f"{sentence}; {', '.join(gaps)}." if gaps else f"{sentence}."


def draw_board(judged: Sequence[Judged]) -> str:
    """The first screen: how many claims hold; per world a sentence, its decided figures with scale, then the others."""
    counts = "".join(
        f"<div><b>{count}</b><span>{(SINGULAR if count == 1 else VERDICTS)[verdict]}{dot(verdict)}</span></div>"
        for verdict, count in count_verdicts(judged).items()
    )
    rows = ""
    for world in dict.fromkeys(claim.world for claim in judged):
        own = [claim for claim in judged if claim.world == world]
        decided = [claim for claim in own if claim.finding.decided]
        others = [claim for claim in own if not claim.finding.decided]
        rows += f"<div><b>{html.escape(world)}</b><p>{html.escape(describe_world(own))}</p>"
        rows += f'<div class="chips">{_chips(decided, scale=True)}</div>' if decided else ""
        rows += f'<div class="chips open">undecided: {_chips(others, scale=False)}</div>' if others else ""
        rows += "</div>"
    return f'<div id="verdicts"><div class="counts">{counts}</div><div class="board">{rows}</div></div>'


def _chips(judged: Sequence[Judged], *, scale: bool) -> str:
    """A link per figure and scale, with a dot per claim."""
    chips = ""
    for id, size in dict.fromkeys((claim.id, claim.short_scale if scale else "") for claim in judged):
        own = [claim for claim in judged if claim.id == id and (not scale or claim.short_scale == size)]
        target = next((claim.anchor for claim in own if claim.anchor), "claims")
        dots = "".join(dot(claim.finding.verdict, claim.words) for claim in own)
        small = f"<small>{html.escape(size)}</small>" if size else ""
        name = html.escape(shorten_artefacts(own[0].artefacts))
        chips += f'<a href="#{target}" title="{html.escape(id)}">{name}{dots}{small}</a>'
    return chips


def draw_claims(judged: Sequence[Judged]) -> str:
    """Every claim with its verdict, what was tested, and our numbers; those that are undecided below."""
    decided = [claim for claim in judged if claim.finding.decided]
    others = [claim for claim in judged if not claim.finding.decided]
    text = f'<section id="claims"><h2>Every claim</h2><p class="note">{RULE}</p>'
    text += f"<h3>Decided ({len(decided)})</h3>{_claims_table(decided)}" if decided else ""
    if others:
        text += f"<details><summary>Undecided ({len(others)})</summary>{_claims_table(others)}</details>"
    return f"{text}</section>"


def _claims_table(judged: Sequence[Judged]) -> str:
    rows = ""
    for claim in judged:
        place = html.escape(shorten_artefacts(claim.artefacts))
        place = f'<a href="#{claim.anchor}">{place}</a>' if claim.anchor else place
        details = ""
        if claim.finding.evidence:
            details = "<details><summary>what is tested, and our numbers</summary>"
            details += f"<p>Tested: {html.escape(claim.finding.tested)}</p>"
            details += f"<p>Ours: {html.escape(claim.finding.evidence)}</p></details>"
        rows += (
            f"<tr><td>{html.escape(claim.world)}<br>{place}</td><td>{html.escape(claim.words)}{details}</td>"
            f'<td class="verdict">{dot(claim.finding.verdict)} {claim.finding.marked}</td>'
            f"<td>{html.escape(claim.scale)}</td></tr>"
        )
    head = "<tr><th>where</th><th>the paper's claim</th><th>verdict</th><th>seeds and scale</th></tr>"
    return f'<table class="claims"><thead>{head}</thead><tbody>{rows}</tbody></table>'


def verdict_table(judged: Sequence[Judged]) -> Table:
    """Every claim with its verdict, as a table of text."""
    rows = [
        [
            claim.artefacts,
            claim.words,
            f"**{claim.finding.marked}**",
            claim.scale,
            claim.finding.evidence,
        ]
        for claim in judged
    ]
    return Table(["in the paper", "the paper's claim", "verdict", "seeds and scale", "our numbers"], rows, prose=True)


def verdicts_markdown(judged: Sequence[Judged]) -> str:
    """How many claims hold, a sentence per world, the table of all that were tested, and a list of the others."""
    worlds = {world: [claim for claim in judged if claim.world == world] for world in (claim.world for claim in judged)}
    parts = [
        f"**{count_words(judged)}** {RULE}",
        "\n".join(f"- **{world}**: {describe_world(own)}" for world, own in worlds.items()),
    ]
    tested = [claim for claim in judged if claim.finding.verdict in TESTED]
    for title, chosen in (
        ("Decided", [claim for claim in tested if claim.finding.decided]),
        ("Not enough seeds or training", [claim for claim in tested if not claim.finding.decided]),
    ):
        parts += [f"### {title}", verdict_table(chosen).markdown()] if chosen else []
    rest = [claim for claim in judged if claim.finding.verdict not in TESTED]
    if rest:
        rows = [[claim.artefacts, claim.words, claim.finding.verdict] for claim in rest]
        table = Table(["in the paper", "the paper's claim", "verdict"], rows, prose=True)
        parts += ["### Not tested", table.markdown()]
    return "\n\n".join(parts)
