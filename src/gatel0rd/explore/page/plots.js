/* Figures: panels above each other with one axis of time. */

import { CHANGED, GRID, FREE_RUNNING, INK, LINE, SOFT, UNCHANGED, tint } from "./theme.js";

export const MARGIN = { left: 40, right: 8, top: 16, bottom: 36 };
export const GAP = 22;
const OPTIONS = { displayModeBar: false, doubleClick: "reset", responsive: true, scrollZoom: false };

/* Lowest and highest number of some rows; null is missing. */
export function extent(rows) {
  let low = Infinity, high = -Infinity;
  for (const row of rows) for (const value of row) {
    if (value === null) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [0, 1];
}

export function pad([low, high]) {
  const space = high > low ? 0.08 * (high - low) : Math.abs(high) || 1;
  return [low - space, high + space];
}

/*
  panels: [{title, height, range, traces, axis?, note?}, …] from top to bottom.
  events, changes: steps that are marked in all panels; freeFrom: step from which the background is shaded.
*/
export function drawFigure(node, panels, { steps, range, events = [], changes = null, freeFrom = null, color, still = false }) {
  const inner = panels.reduce((sum, panel) => sum + panel.height, 0) + GAP * (panels.length - 1);
  const layout = baseLayout(inner, panels.length, range || [-0.5, steps - 0.5], still);
  const data = [];
  let top = 1;
  panels.forEach((panel, place) => {
    const bottom = Math.max(0, top - panel.height / inner), suffix = place ? place + 1 : "";
    layout[`yaxis${suffix}`] = {
      domain: [bottom, top], fixedrange: true, zeroline: false, gridcolor: GRID, nticks: 4, range: panel.range,
      showline: true, linecolor: LINE, ...panel.axis,
    };
    layout.annotations.push(...panelTexts(panel, bottom, top));
    layout.shapes.push(...panelShapes(bottom, top, freeFrom, steps));
    const marks = [eventMarks(events, panel.range, color)];
    if (changes) marks.push(changeMarks(changes, panel.range));
    for (const trace of [...marks, ...panel.traces]) {
      data.push({ ...trace, xaxis: "x", yaxis: `y${suffix}` });
    }
    top = bottom - GAP / inner;
  });
  Plotly.react(node, data, layout, { ...OPTIONS, staticPlot: still });
}

function baseLayout(inner, count, range, still) {
  return {
    height: inner + MARGIN.top + MARGIN.bottom,
    margin: { l: MARGIN.left, r: MARGIN.right, t: MARGIN.top, b: MARGIN.bottom },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "#fff", showlegend: false, hovermode: false,
    dragmode: still ? false : "zoom", annotations: [], shapes: [],
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: SOFT },
    xaxis: {
      range, anchor: count > 1 ? `y${count}` : "y", zeroline: false, gridcolor: GRID, linecolor: LINE, nticks: 7,
      ticks: "outside", tickcolor: LINE, ticklen: 3, title: { text: "step", standoff: 4, font: { size: 11 } },
    },
  };
}

function panelTexts(panel, bottom, top) {
  const title = {
    text: panel.title, x: 0, xref: "paper", xanchor: "left", y: top, yref: "paper", yanchor: "bottom",
    showarrow: false, font: { size: 11.5, color: INK }, borderpad: 1,
  };
  if (!panel.note) return [title];
  const note = { text: panel.note, x: 0.5, xanchor: "center", y: (bottom + top) / 2, yanchor: "middle", font: { color: SOFT } };
  return [title, { ...title, ...note }];
}

function panelShapes(bottom, top, freeFrom, steps) {
  const whole = { type: "rect", xref: "paper", yref: "paper", x0: 0, x1: 1, y0: bottom, y1: top };
  const frame = { ...whole, line: { color: LINE, width: 1 } };
  if (freeFrom === null) return [frame];
  const shade = { fillcolor: FREE_RUNNING, line: { width: 0 }, layer: "below" };
  return [frame, { ...whole, xref: "x", x0: freeFrom, x1: steps - 0.5, ...shade }];
}

const markSteps = (steps, range, name, line) => ({
  type: "scatter", mode: "lines", name, line, opacity: 0.75,
  x: steps.flatMap((step) => [step, step, null]), y: steps.flatMap(() => [...range, null]),
});

const eventMarks = (events, range, color) => markSteps(events, range, "events", { color, width: 1, dash: "dot" });

const changeMarks = (changes, range) => markSteps(changes, range, "changes", { color: CHANGED, width: 1.6 });

/* The latent state, a line per dimension; those that hardly change are grey and below the others. */
export function latentPanel(latents, color, range, height) {
  const moves = latents.map((row) => { const [low, high] = extent([row]); return high - low; });
  const largest = Math.max(...moves, 1e-9);
  const order = latents.map((_, dimension) => dimension).sort((a, b) => moves[a] - moves[b]);
  const shades = [1, 0.72, 0.5];
  return {
    title: "latent state <i>h</i>", height, range,
    traces: order.map((dimension) => {
      const still = moves[dimension] < 0.03 * largest || moves[dimension] < 1e-4;
      return {
        type: "scatter", mode: "lines", name: `h${dimension + 1}`,
        x: latents[dimension].map((_, step) => step), y: latents[dimension],
        line: { width: still ? 1 : 1.6, color: still ? UNCHANGED : tint(color, shades[dimension % shades.length]) },
      };
    }),
  };
}

/* The gates; of a cell without any (null), how much each dimension changes. */
export function gatePanel(gates, latents, color, height) {
  const cells = gates || latents.map((row) => row.map((value, step) => (step ? Math.abs(value - row[step - 1]) : null)));
  const count = cells.length, largest = gates ? 1 : Math.max(extent(cells)[1], 1e-9);
  return {
    title: gates ? "gates Λ" : "no gates: change of state |Δ<i>h</i>|", height, range: [count + 0.5, 0.5],
    axis: { showgrid: false, tickmode: "array", ticks: "", tickvals: count > 12 ? [1, count] : [1, Math.ceil(count / 2), count] },
    traces: [{
      type: "heatmap", name: "gates", z: cells, x: (cells[0] || []).map((_, step) => step), y: cells.map((_, row) => row + 1),
      zmin: 0, zmax: largest, showscale: false, ygap: 1, hoverinfo: "none",
      colorscale: gates
        ? [[0, "rgba(255,255,255,0)"], [1e-6, tint(color, 0.35)], [1, color]]
        : [[0, "rgba(255,255,255,0)"], [0.02, tint(color, 0.06)], [1, tint(color, 0.9)]],
    }],
  };
}
