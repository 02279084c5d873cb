/* Everything that the page remembers, in one object, and questions about it. */

export const state = {
  overview: null,
  requested: 0,         // index of the sequence that was chosen
  sequence: 0,          // index of the sequence that is shown
  values: {},           // variable -> recorded values of the sequence
  trajectories: [],     // one per model
  visible: new Set(),   // names of variables
  edits: new Map(),     // step and variable -> {step, variable, value}
  points: [],           // per model: which of the models of its fit is shown, null is the chosen one
  freeFrom: null,       // step from which the models see their own predictions
  pinned: 0,            // step that was clicked
  at: 0,                // step under the pointer
  zoom: null,           // range of steps
  columns: [],          // elements of each model's column
  prediction: { busy: false, again: false },
  drive: {
    world: null,        // entry of overview.drives
    session: null,
    actionSize: 0,
    held: new Set(),    // keys
    pressedAt: 0,       // when the last key was pressed, in milliseconds
    toggles: {},        // key -> 1 or -1
    queue: [],          // actions that wait for the server
    working: false,
    moving: false,      // after a shot
    observation: [],
    watchers: [],
  },
};

export const isLive = () => state.overview.live;

export const stepCount = () => state.overview.sequences[state.sequence].length;

export const clampStep = (step) => Math.max(0, Math.min(stepCount() - 1, step));

export const editKey = (step, variable) => `${step} ${variable}`;

export function valueAt(variable, step) {
  const edit = state.edits.get(editKey(step, variable));
  return edit ? edit.value : state.values[variable][step];
}

export const hasVariable = (model, name) => model.observations.includes(name) || model.actions.includes(name);
