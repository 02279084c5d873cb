/* One moment in all columns: a line in the plots, values in the list of variables, a sentence per model. */

import { byId } from "./dom.js";
import { formatValue, plural } from "./format.js";
import { MARGIN } from "./plots.js";
import { clampStep, editKey, state, stepCount, valueAt } from "./state.js";

export function moveCursor(step) {
  state.at = clampStep(step);
  byId("at").textContent = `at step ${state.at}`;
  showValues();
  state.columns.forEach((column, place) => {
    moveLines(column);
    column.reading.textContent = `step ${state.at}: ${describe(state.trajectories[place])}`;
  });
}

function showValues() {
  for (const row of byId("variables").children) {
    const name = row.dataset.name, input = row.querySelector("input[type=number]");
    input.classList.toggle("edited", state.edits.has(editKey(state.at, name)));
    if (document.activeElement !== input) input.value = formatValue(valueAt(name, state.at));
  }
}

function moveLines(column) {
  const layout = column.plot.layout, [low, high] = layout.xaxis.range;
  const width = column.plot.clientWidth - MARGIN.left - MARGIN.right;
  for (const [node, step] of [[column.cursor, state.at], [column.pin, state.pinned]]) {
    const share = (step - low) / (high - low);
    node.hidden = share < 0 || share > 1 || (node === column.pin && state.pinned === state.at);
    node.style.left = `${MARGIN.left + share * width}px`;
    node.style.top = `${MARGIN.top}px`;
    node.style.height = `${layout.height - MARGIN.top - MARGIN.bottom}px`;
    node.style.maskImage = panelMask(layout);
  }
}

/* Lines are drawn inside the panels only: between them are titles. */
function panelMask(layout) {
  const domains = Object.keys(layout).filter((name) => name.startsWith("yaxis")).map((name) => layout[name].domain);
  const stops = domains.sort((a, b) => b[1] - a[1]).flatMap(([bottom, top]) => {
    const [from, to] = [1 - top, 1 - bottom].map((share) => `${(100 * share).toFixed(2)}%`);
    return [`transparent ${from}`, `#000 ${from} ${to}`, `transparent ${to}`];
  });
  return `linear-gradient(to bottom, ${stops.join(", ")})`;
}

function describe(trajectory) {
  const changed = describeChange(trajectory.changes);
  return `${describeMemory(trajectory)}${changed && ` · ${changed}`}`;
}

/* A change near the cursor, and what changes; else which of the segments between changes this is. */
function describeChange(changes) {
  if (!changes) return "";
  const near = changes.times.findIndex((time) => Math.abs(time - state.at) <= 1);
  if (near < 0) return `segment ${changes.labels[changes.times.filter((time) => time <= state.at).length] + 1}`;
  const shares = Object.entries(changes.variables[near]).sort((a, b) => b[1] - a[1]).filter(([, share]) => share >= 0.05);
  const names = shares.slice(0, 3).map(([name]) => name).join(", ");
  return `a change at ${changes.times[near]}${names && ` of ${names}`} (${(100 * changes.probabilities[near]).toFixed(0)} %)`;
}

function describeMemory({ gates, latents }) {
  const step = state.at;
  if (step >= stepCount() - 1) return "the end";
  if (!gates) {
    const changed = latents.filter((row) => step && Math.abs(row[step] - row[step - 1]) > 1e-3).length;
    return `${changed} of ${plural(latents.length, "dimension")} change`;
  }
  const open = gates.map((row, dimension) => (row[step] > 0 ? dimension + 1 : 0)).filter(Boolean);
  return open.length ? `gate${open.length > 1 ? "s" : ""} ${open.join(", ")} open` : "all gates closed";
}
