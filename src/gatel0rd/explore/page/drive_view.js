/* The tab "Drive": a live world, steered as the server describes, with a log of what happens. */

import { startSession, stepSession } from "./api.js";
import { listenToShots } from "./aim.js";
import { byId, make, showError } from "./dom.js";
import { capitalize } from "./format.js";
import { state } from "./state.js";
import { currentAction, keysRepeat, listenToKeys, resetSteering, showHelp, toggleTexts } from "./steering.js";
import { colorOf } from "./theme.js";
import { buildWatchers, clearWatchers, updateWatcher } from "./watchers.js";

const { drive } = state;
const PERIOD = 120; // milliseconds between steps while a key is held or time runs
const LONGEST_LOG = 60; // lines

const isShown = () => !byId("drive").hidden;

export function buildDriveView() {
  const { drives } = state.overview;
  if (!drives.length) return;
  byId("tab-drive").hidden = false;
  byId("scenario").append(...drives.map((world, index) => make("option", { value: index, textContent: world.title })));
  byId("scenario").onchange = (event) => chooseWorld(drives[Number(event.target.value)]);
  byId("new-world").onclick = () => {
    begin();
    byId("stage").focus();
  };
  listenToKeys(() => isShown() && drive.world !== null, takeStep);
  listenToShots(begin);
  setInterval(runTime, PERIOD);
}

export async function openDriveView() {
  byId("stage").focus();
  if (drive.world === null) await chooseWorld(state.overview.drives[0]);
}

function chooseWorld(world) {
  const { may_run: mayRun, shot } = world.steering;
  drive.world = world;
  showHelp(takeStep);
  byId("running-label").hidden = !mayRun;
  byId("running").checked = mayRun && shot !== null;
  byId("stage").classList.toggle("aimed", shot !== null);
  buildWatchers(world.scenario);
  return begin();
}

/* A new world; start says where things are, as options of the environment's reset. */
async function begin(start = {}) {
  drive.queue = [];
  drive.session = null;
  drive.moving = false;
  try {
    const answer = await startSession(drive.world.scenario, start);
    drive.session = answer.session;
    drive.actionSize = answer.action_size;
    resetSteering();
    clearWatchers();
    byId("log").replaceChildren();
    byId("now").textContent = drive.world.steering.waiting;
    showScene(answer);
  } catch (error) {
    showError(error.message);
  }
}

function runTime() {
  if (!isShown() || drive.working || drive.queue.length || !drive.session) return;
  const runs = byId("running").checked && (drive.world.steering.shot === null || drive.moving);
  if (keysRepeat() || runs) takeStep(currentAction());
}

async function takeStep(action) {
  if (!drive.session) return; // a new world is on its way
  drive.queue.push(action);
  if (drive.working) return;
  drive.working = true;
  try {
    while (drive.queue.length && drive.session) {
      const { session } = drive;
      const answer = await stepSession(session, drive.queue.shift());
      if (session === drive.session) receive(answer);
    }
  } catch (error) {
    drive.queue = [];
    byId("running").checked = false;
    showError(error.message);
  } finally {
    drive.working = false;
  }
}

function showScene({ frame, info, observation, step }) {
  byId("frame").src = frame;
  byId("clock").textContent = [`step ${step}`, ...toggleTexts(info)].join(" · ");
  drive.observation = observation;
  byId("drive").dataset.step = step;
  byId("drive").dataset.observation = JSON.stringify(observation);
}

function receive(answer) {
  showScene(answer);
  const said = [...answer.messages];
  answer.models.forEach((told, place) => {
    const watcher = drive.watchers[place];
    updateWatcher(watcher, told);
    if (told.message === null) return;
    said.push(`${watcher.label}: ${told.message}`);
    addToLog(watcher.latents[0].length - 1, said.at(-1), "", colorOf(watcher.model));
  });
  for (const message of answer.messages) addToLog(answer.step, capitalize(message), "world");
  const { shot } = drive.world.steering;
  if (shot && (answer.info[shot.stopped] || answer.step >= shot.longest)) drive.moving = false;
  byId("now").textContent = `${said.length ? capitalize(said.join("; ")) : describeGates()}.`;
}

function describeGates() {
  const gated = drive.watchers.filter((watcher) => watcher.gates.length);
  if (!gated.length) return "Nothing special";
  return gated.some((watcher) => watcher.open) ? "No event; some gates are open" : "All gates are closed";
}

function addToLog(step, text, kind, color = "") {
  const line = make("li", { className: kind }, make("b", { textContent: step }), make("span", { textContent: text }));
  line.style.color = color;
  byId("log").prepend(line);
  while (byId("log").children.length > LONGEST_LOG) byId("log").lastChild.remove();
}
