/* Models that watch a live world: their latent states and gates up to now. */

import { makeTitle } from "./columns.js";
import { byId, isNarrow, make } from "./dom.js";
import { formatError, plural } from "./format.js";
import { GAP, MARGIN, drawFigure, extent, gatePanel, latentPanel, pad } from "./plots.js";
import { state } from "./state.js";
import { colorOf } from "./theme.js";

const WINDOW = 60; // steps

export function buildWatchers(scenario) {
  const models = state.overview.models.filter((model) => model.scenario === scenario);
  state.drive.watchers = models.map((model) => {
    const title = makeTitle(model), status = make("span", { className: "status" });
    const watcher = { model, status, label: title.textContent, plot: make("div", { className: "plot" }) };
    title.append(status);
    watcher.section = make("section", { className: "watcher" }, title, watcher.plot);
    return watcher;
  });
  byId("watchers").replaceChildren(...state.drive.watchers.map((watcher) => watcher.section));
  clearWatchers();
}

export function clearWatchers() {
  for (const watcher of state.drive.watchers) {
    Object.assign(watcher, { latents: [], gates: [], events: [], open: 0 });
    watcher.status.textContent = "";
  }
  drawWatchers();
}

/* Take what the server sent about one model. */
export function updateWatcher(watcher, { error, events, rows }) {
  for (const row of rows) {
    row.latents.forEach((value, dimension) => { (watcher.latents[dimension] ||= []).push(value); });
    (row.gates || []).forEach((value, dimension) => { (watcher.gates[dimension] ||= []).push(value); });
  }
  watcher.events = events;
  watcher.open = watcher.gates.filter((row) => row.at(-1) > 0).length;
  const gates = watcher.open ? `${plural(watcher.open, "gate")} open` : "all gates closed";
  watcher.status.textContent = error === null
    ? "waits for its first inputs"
    : `one-step error ${formatError(error)}${watcher.model.gated ? ` · ${gates}` : ""}`;
  drawWatcher(watcher);
}

export function drawWatchers() {
  state.drive.watchers.forEach(drawWatcher);
}

function drawWatcher(watcher) {
  const count = watcher.latents[0]?.length || 0, color = colorOf(watcher.model);
  const range = [Math.max(0, count - WINDOW) - 0.5, Math.max(WINDOW, count) + 0.5];
  const latents = watcher.latents.length ? watcher.latents : [[]];
  const gates = watcher.gates.length ? watcher.gates : [[]];
  const others = state.drive.watchers.length;
  const room = isNarrow() ? 230 : Math.max(170, Math.min(330, (byId("watchers").clientHeight - 30 * others) / others));
  const inner = room - MARGIN.top - MARGIN.bottom - GAP;
  const [low, high] = extent(latents);
  drawFigure(watcher.plot, [
    latentPanel(latents, color, pad([Math.min(-1, low), Math.max(1, high)]), inner * 0.56),
    gatePanel(watcher.model.gated ? gates : null, latents, color, inner * 0.44),
  ], { steps: range[1], range, color, events: watcher.events.filter((step) => step > range[0]), still: true });
}
