"""How the page looks."""

STYLE = """
:root { --ink: #23272f; --soft: #667085; --line: #e4e7ec; --accent: #c0392b; --paper: #fdfcfa; --card: white;
  --head: #f6f4ef; --code: #f2f0eb; color-scheme: light dark; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 Georgia, "Times New Roman", serif; }
main, header > div, .bar > div { max-width: 1180px; margin: 0 auto; padding: 0 24px; }
header { background: #23272f; color: #fdfcfa; padding: 22px 0 18px; }
header h1 { margin: 0 0 4px; font-size: 28px; font-weight: normal; }
header p { margin: 2px 0; color: #c9ced6; max-width: 1000px; font-size: 14px; line-height: 1.45; }
.bar { position: sticky; top: 0; z-index: 9; background: var(--card); border-bottom: 1px solid var(--line);
  font: 13px/1.4 system-ui, sans-serif; }
.bar > div { display: flex; gap: 4px 16px; overflow-x: auto; padding-top: 8px; padding-bottom: 8px; }
.bar a { color: var(--ink); text-decoration: none; white-space: nowrap; } .bar a:hover { color: var(--accent); }
[id] { scroll-margin-top: 48px; }
section { margin: 36px 0; padding-top: 4px; border-top: 1px solid var(--line); }
h2.world { font-size: 27px; margin: 56px 0 -12px; }
h2 { font-size: 23px; font-weight: normal; margin: 20px 0 4px; }
h3 { font: 600 15px/1.4 system-ui, sans-serif; margin: 22px 0 6px; }
.id, code { font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace; }
.id { color: var(--accent); margin-left: 10px; }
.claim { border-left: 3px solid var(--accent); padding: 2px 0 2px 14px; margin: 12px 0; }
.note, footer { color: var(--soft); font: 14px/1.5 system-ui, sans-serif; }
code { background: var(--code); padding: 2px 7px; border-radius: 4px; }
.blocks { display: flex; flex-wrap: wrap; gap: 0 24px; align-items: flex-start; }
.blocks > div { max-width: 100%; }
figure { margin: 8px 0; width: fit-content; max-width: 100%; padding: 10px;
  background: white; border: 1px solid var(--line); border-radius: 6px; }
figure img { display: block; max-width: 100%; height: auto; }
figcaption { contain: inline-size; color: #667085; font: 13px/1.4 system-ui, sans-serif; padding: 6px 4px 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font: 14px/1.45 system-ui, sans-serif; background: var(--card); margin: 6px 0; }
th, td { border: 1px solid var(--line); padding: 6px 12px; text-align: right; min-width: 6.5em; }
th:first-child, td:first-child { text-align: left; }
.prose th, .prose td { text-align: left; }
th { background: var(--head); font-weight: 600; }
footer { padding: 24px 0 48px; }
.counts { display: flex; flex-wrap: wrap; gap: 10px; margin: 18px 0 12px; font-family: system-ui, sans-serif; }
.counts div { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 4px 16px 6px; }
.counts b { display: inline-block; font-size: 22px; font-weight: 600; line-height: 1.3; margin-right: 7px; }
.counts span, .board, .claims { font-size: 14px; }
.board { font-family: system-ui, sans-serif; }
.board > div { display: grid; grid-template-columns: 170px 1fr; gap: 0 18px; padding: 9px 0;
  border-top: 1px solid var(--line); }
.board b { font-weight: 600; grid-row: span 3; }
.board p { margin: 0 0 6px; }
.board .chips { display: flex; flex-wrap: wrap; gap: 5px; grid-column: 2; }
.board .open { margin-top: 5px; align-items: baseline; }
.board .chips a { color: var(--ink); text-decoration: none; background: var(--card); border: 1px solid var(--line);
  border-radius: 5px; padding: 2px 9px; font-size: 13px; }
.board .chips a small { color: var(--soft); margin-left: 6px; font-size: 12px; }
.board .open, .board .chips.open a { color: var(--soft); font-size: 12px; }
.board .chips.open a { padding: 0 5px; background: none; border-color: transparent; }
.board .chips a:hover { border-color: var(--soft); }
i.dot { display: inline-block; width: 10px; height: 10px; border-radius: 50%; margin-left: 5px; }
.holds { background: #2e8b57; } .does-not-hold { background: #c0392b; }
.not-enough-seeds { background: #e0a526; } .not-enough-training { background: #c9763a; }
.not-measured { background: #8fb3d9; } .networks-missing { background: #b7a6cf; } .not-run { background: #d0d5dd; }
.claims { width: 100%; }
.claims td { white-space: normal; text-align: left; vertical-align: top; } .claims th { text-align: left; }
.claims td.verdict { white-space: nowrap; }
.claims details { color: var(--soft); font-size: 13px; }
.contents { columns: 3 300px; column-gap: 30px; font: 14px/1.5 system-ui, sans-serif; }
.contents div { break-inside: avoid; margin-bottom: 14px; } .contents b { display: block; }
.contents a { color: var(--ink); text-decoration: none; display: block; }
.contents .dots { white-space: nowrap; }
.contents a:hover { color: var(--accent); } .contents a small { color: var(--soft); }
details.scale { margin: 14px 0; border: 1px solid var(--line); border-radius: 6px; padding: 4px 14px; }
details.scale > summary { cursor: pointer; font: 14px/1.8 system-ui, sans-serif; color: var(--soft); }
summary { cursor: pointer; }
#claims > details > summary { font: 600 15px/1.4 system-ui, sans-serif; margin: 22px 0 6px; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e6ea; --soft: #a3abb8; --line: #3b414d; --accent: #ff8f80; --paper: #1b1e24; --card: #262a32;
    --head: #2e333d; --code: #2e333d; }
}
@media print {
  .bar { display: none; } section, figure, tr { break-inside: avoid; } header { background: none; color: black; }
  header p { color: black; } .scroll { overflow: visible; }
}
@media (max-width: 700px) {
  main, header > div, .bar > div { padding-left: 14px; padding-right: 14px; }
  .board > div { grid-template-columns: 1fr; } .board .chips { grid-column: 1; }
  .claims thead { display: none; } .claims tr { display: block; border: 1px solid var(--line); margin-bottom: 10px; }
  .claims td { display: block; border: 0; padding: 4px 10px; } .claims td.verdict { white-space: normal; }
  .note code, .id { overflow-wrap: anywhere; } .prose td:last-child { min-width: 16em; }
}
"""
