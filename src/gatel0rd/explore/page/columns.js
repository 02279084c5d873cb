/* One column per model: its variables as recorded and predicted, its latent state, its gates. */

import { moveCursor } from "./cursor.js";
import { makeCurve } from "./curve.js";
import { byId, isNarrow, make } from "./dom.js";
import { escapeHtml, formatError, plural } from "./format.js";
import { GAP, MARGIN, drawFigure, extent, gatePanel, latentPanel, pad } from "./plots.js";
import { linkPointer } from "./pointer.js";
import { hasVariable, isLive, state, stepCount, valueAt } from "./state.js";
import { EDITED, EDITED_FILL, INK, SOFT, cellName, colorOf } from "./theme.js";

const LATENT_HEIGHT = 120;

export function makeTitle(model) {
  const dot = make("span", { className: "dot" });
  dot.style.background = colorOf(model);
  const sameCell = state.overview.models.filter((other) => other.cell === model.cell).length > 1;
  const label = make("span", { className: "name", textContent: sameCell ? model.name : cellName(model) });
  return make("h3", { title: model.name }, dot, label);
}

/* onPick: called when another of the models of a fit was chosen. */
export function buildColumns(onPick) {
  state.columns = state.overview.models.map((model, place) => {
    const column = {
      plot: make("div", { className: "plot" }), cursor: make("div", { className: "cursor" }),
      pin: make("div", { className: "cursor pin" }), summary: make("p", { className: "summary" }),
      reading: make("p", { className: "reading" }), linked: false, curve: makeCurve(model, place, onPick),
    };
    column.holder = make("div", { className: "holder" }, column.plot, column.pin, column.cursor);
    column.summary.title = "Mean squared error, in the model's units; an event is a step at which gates open after all were closed, "
      + "a change one at which the coefficients or the noise of a regression change.";
    const inside = [makeTitle(model), ...(model.method ? [makeNote(model)] : []), column.summary, column.reading];
    if (column.curve) inside.push(column.curve.node);
    byId("columns").append(make("section", { className: "column" }, ...inside, column.holder));
    return column;
  });
}

function makeNote({ method, purpose }) {
  return make("p", { className: "method", title: purpose || "", textContent: `gatel0rd segment reports ${method === "gates" ? "the gates' events" : "changes"}` });
}

export function drawColumns() {
  const { models, variables } = state.overview;
  const rows = variables.filter((variable) => state.visible.has(variable.name));
  const heights = panelHeights(rows.length);
  const ranges = Object.fromEntries(rows.map((variable) => [variable.name, variableRange(variable)]));
  const latentRange = pad(extent(state.trajectories.flatMap((trajectory) => trajectory.latents)));
  models.forEach((model, place) => {
    const column = state.columns[place], trajectory = state.trajectories[place], color = colorOf(model);
    const panels = rows.map(({ name }) => variablePanel(model, trajectory, name, ranges[name], heights.row));
    panels.push(latentPanel(trajectory.latents, color, latentRange, LATENT_HEIGHT));
    panels.push(gatePanel(trajectory.gates, trajectory.latents, color, heights.gates));
    const { events } = trajectory, changes = trajectory.changes?.times;
    if (column.curve) column.curve.redraw();
    drawFigure(column.plot, panels, { steps: stepCount(), range: state.zoom, events, changes, freeFrom: state.freeFrom, color });
    if (!column.linked) linkPointer(column, drawColumns);
    column.linked = true;
    column.summary.textContent = summarize(trajectory);
  });
  if (isLive()) {
    byId("free-text").textContent = state.freeFrom === null ? "off: every input is real" : `from step ${state.freeFrom} on`;
    byId("reset").disabled = state.edits.size === 0;
  }
  moveCursor(state.at);
}

function panelHeights(rows) {
  const most = Math.max(...state.trajectories.map((trajectory) => (trajectory.gates || trajectory.latents).length));
  const gates = Math.min(150, Math.max(72, 10 * most));
  const curves = Math.max(0, ...state.columns.map(({ curve }) => (curve ? curve.node.offsetHeight + 20 : 0)));
  const room = isNarrow() ? 0 : byId("columns").clientHeight - 100 - curves;
  const left = room - MARGIN.top - MARGIN.bottom - gates - LATENT_HEIGHT - GAP * (rows + 1);
  return { gates, row: Math.max(isNarrow() ? 80 : 56, Math.min(120, left / Math.max(1, rows))) };
}

const everyStep = () => Array.from({ length: stepCount() }, (_, step) => step);

const valuesOf = (name) => everyStep().map((step) => valueAt(name, step));

/* Around the recorded values; predictions that leave them by far are cut off. */
function variableRange({ name, spread }) {
  let [low, high] = extent([valuesOf(name)]);
  const missing = Math.max(0, (spread || 0) / 8 - (high - low)); // what hardly changes is not magnified
  [low, high] = [low - missing / 2, high + missing / 2];
  const span = high - low || 1;
  const [under, over] = extent([[low, high], ...state.trajectories.map((trajectory) => trajectory.predictions[name] || [])]);
  return pad([Math.max(under, low - span / 2), Math.min(over, high + span / 2)]);
}

/* A variable that a model does not have keeps its place, so that panels of neighbours are at one height. */
function variablePanel(model, trajectory, name, range, height) {
  const acted = model.actions.includes(name);
  const title = acted ? `<i>${escapeHtml(name)}</i>` : escapeHtml(name);
  if (!hasVariable(model, name)) {
    return {
      title, height, range, traces: [], note: "not a variable of this model",
      axis: { showgrid: false, showticklabels: false },
    };
  }
  const line = (kind, x, y, style) => ({ type: "scatter", mode: "lines", name: `${name} ${kind}`, x, y, line: style });
  const steps = everyStep();
  const traces = [
    line("recorded", steps, valuesOf(name), { color: acted ? SOFT : INK, width: 1.3, shape: acted ? "hv" : "linear" }),
  ];
  const predicted = trajectory.predictions[name];
  if (predicted) traces.push(line("predicted", steps.slice(1), predicted, { color: colorOf(model), width: 1.9 }));
  const edits = [...state.edits.values()].filter((edit) => edit.variable === name);
  if (edits.length) {
    traces.push({
      type: "scatter", mode: "markers", name: `${name} edited`,
      x: edits.map((edit) => edit.step), y: edits.map((edit) => edit.value),
      marker: { symbol: "diamond", size: 9, color: EDITED_FILL, line: { color: EDITED, width: 2 } },
    });
  }
  return { title, height, range, traces };
}

function summarize({ changes, events, free_error, gates, one_step_error, open_rate, real_steps }) {
  const error = free_error === null
    ? `one-step error: ${formatError(one_step_error)}`
    : `error after ${real_steps}: ${formatError(free_error)}`;
  const parts = [error];
  if (changes) parts.push(plural(changes.times.length, "change"));
  if (gates) parts.push(plural(events.length, "event"), `${(100 * open_rate).toFixed(1)} % open`);
  return parts.join(" · ");
}
