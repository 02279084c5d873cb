/* The tab "Explore": which sequence, from where on the models run freely, which variables, and edits. */

import { loadValues, predictAll } from "./api.js";
import { buildColumns, drawColumns } from "./columns.js";
import { moveCursor } from "./cursor.js";
import { byId, make, showError } from "./dom.js";
import { formatValue } from "./format.js";
import { editKey, isLive, state, stepCount, valueAt } from "./state.js";

const VISIBLE_AT_FIRST = 4; // variables of each model

export async function openSequence(index) {
  const { models, sequences } = state.overview;
  state.requested = index;
  const values = await loadValues(index);
  if (state.requested !== index) return; // another one was chosen meanwhile
  state.edits.clear();
  Object.assign(state, { sequence: index, values, freeFrom: null, zoom: null, pinned: 0, at: 0 });
  const last = stepCount() - 1, { length, whole_length: wholeLength } = sequences[index];
  Object.assign(byId("free"), { min: Math.min(last, Math.max(...models.map((model) => model.init_steps))), max: last, value: last });
  byId("cut").hidden = length === wholeLength;
  byId("cut").textContent = `The first ${length} of ${wholeLength} steps are shown.`;
  await predict();
}

/* One request at a time; what changes meanwhile is asked for when the answer is here. */
async function predict() {
  const { prediction } = state;
  prediction.again = true;
  if (prediction.busy) return;
  prediction.busy = true;
  try {
    while (prediction.again) {
      prediction.again = false;
      const { sequence } = state;
      const trajectories = await predictAll(sequence, state.freeFrom, [...state.edits.values()]);
      if (sequence !== state.sequence) continue;
      state.trajectories = trajectories;
      drawColumns();
    }
  } catch (error) {
    showError(error.message);
  } finally {
    prediction.busy = false;
  }
}

export function buildSequenceView() {
  const { models, sequences, variables } = state.overview;
  state.visible = new Set(models.flatMap((model) => model.observations.slice(0, VISIBLE_AT_FIRST)));
  byId("sequences").append(...sequences.map((entry, index) =>
    make("option", { value: index, title: entry.name, textContent: `${entry.name} · ${entry.whole_length} steps` })));
  byId("sequences").value = "0";
  byId("sequences").onchange = (event) =>
    openSequence(Number(event.target.value)).catch((error) => showError(error.message));
  byId("free").oninput = (event) => {
    const value = Number(event.target.value);
    state.freeFrom = value >= stepCount() - 1 ? null : value;
    predict();
  };
  byId("variables").append(...variables.map(makeVariable));
  byId("reset").onclick = () => {
    state.edits.clear();
    predict();
  };
  state.points = models.map(() => null);
  for (const node of document.querySelectorAll("#legend .changed")) node.hidden = models.every((model) => model.method === null);
  buildColumns(predict);
}

function makeVariable({ name, kind }) {
  const check = make("input", { type: "checkbox", checked: state.visible.has(name) });
  check.onchange = () => {
    state.visible[check.checked ? "add" : "delete"](name);
    drawColumns();
  };
  const input = make("input", { type: "number", step: "any", disabled: !isLive(), ariaLabel: `value of ${name}` });
  input.onfocus = () => moveCursor(state.pinned);
  input.onchange = () => {
    const value = input.valueAsNumber;
    if (!Number.isFinite(value)) {
      input.value = formatValue(valueAt(name, state.pinned));
      return;
    }
    state.edits.set(editKey(state.pinned, name), { step: state.pinned, variable: name, value });
    state.visible.add(name);
    check.checked = true;
    predict();
  };
  const label = make("label", { title: `${name} (${kind}): show or hide` }, check, make("span", { textContent: name }));
  const row = make("div", { className: `variable ${kind}` }, label, input);
  row.dataset.name = name;
  return row;
}
