/* Keys and toggles of a world, as its steering describes them: from what is held to an action. */

import { byId, make } from "./dom.js";
import { state } from "./state.js";

const KEY_LABELS = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": "space" };
const KEY_NAMES = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", ".": "full stop", ",": "comma" };

const REPEAT_DELAY = 250; // milliseconds

const steering = () => state.drive.world.steering;

export function resetSteering() {
  state.drive.held.clear();
  state.drive.toggles = Object.fromEntries(Object.keys(steering().toggles).map((key) => [key, 1]));
}

export function currentAction() {
  const { actionSize, held, toggles } = state.drive;
  const action = Array(actionSize).fill(0);
  for (const key of held) steering().keys[key].forEach((part, index) => { action[index] += part; });
  for (const [key, toggle] of Object.entries(steering().toggles)) action[toggle.index] = toggles[key];
  return action;
}

const isUsed = (key) => key in steering().keys || key in steering().toggles || key === steering().wait_key;

/* Press a key of the steering; each press takes a step. */
function press(key, takeStep) {
  state.drive.pressedAt = performance.now();
  if (key in steering().keys) state.drive.held.add(key);
  else if (key in steering().toggles) state.drive.toggles[key] *= -1;
  takeStep(currentAction());
}

/* Whether keys are held for so long that they repeat; a short press takes exactly one step. */
export const keysRepeat = () => state.drive.held.size > 0 && performance.now() - state.drive.pressedAt > REPEAT_DELAY;

const release = (key) => state.drive.held.delete(key);

export function listenToKeys(isActive, takeStep) {
  window.addEventListener("keydown", (event) => {
    if (!isActive() || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, button")) return;
    if (!isUsed(event.key)) return;
    event.preventDefault();
    if (!event.repeat) press(event.key, takeStep);
  });
  window.addEventListener("keyup", (event) => release(event.key));
  window.addEventListener("blur", () => state.drive.held.clear());
}

/* The keys as buttons, for those who have a pointer only, and the help. */
export function showHelp(takeStep) {
  const { help, keys, toggles, wait_key: waitKey } = steering();
  const all = [...Object.keys(keys), ...Object.keys(toggles), ...(waitKey === null ? [] : [waitKey])];
  const buttons = all.map((key) => {
    const button = make("button", { className: "key", textContent: KEY_LABELS[key] || key, tabIndex: -1 });
    button.ariaLabel = KEY_NAMES[key] || KEY_LABELS[key] || key;
    button.onpointerdown = (event) => {
      event.preventDefault(); // the scene keeps the focus
      press(key, takeStep);
    };
    for (const end of ["pointerup", "pointerleave", "pointercancel"]) button.addEventListener(end, () => release(key));
    return button;
  });
  byId("keys").replaceChildren(...buttons, make("span", { textContent: help }));
}

/* What the toggles say about the world, for the line with the clock. */
export const toggleTexts = (info) =>
  Object.values(steering().toggles).map(({ status, on, off }) => (info[status] ? on : off));
