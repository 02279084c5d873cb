/* Where data comes from: the server, or the file itself if the page was saved. */

import { byId, hideError } from "./dom.js";
import { isLive, state } from "./state.js";

async function ask(path, body) {
  let answer;
  try {
    answer = await fetch(path, body === undefined ? {} : {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
    });
  } catch {
    throw new Error("The server does not answer; is `gatel0rd explore` still running?");
  }
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  hideError();
  return content;
}

export async function loadOverview() {
  const saved = byId("saved");
  return saved ? JSON.parse(saved.textContent) : ask("/api/overview");
}

export async function loadValues(sequence) {
  return (isLive() ? await ask("/api/sequence", { sequence }) : state.overview.saved[sequence]).values;
}

export async function predictAll(sequence, freeFrom, edits) {
  if (!isLive()) {
    const { points, trajectories } = state.overview.saved[sequence];
    return trajectories.map((trajectory, model) => (state.points[model] === null ? trajectory : points[model][state.points[model]]));
  }
  return Promise.all(state.overview.models.map((_, model) =>
    ask("/api/predict", { model, sequence, real_steps: freeFrom, edits, point: state.points[model] })));
}

export const startSession = (scenario, start) => ask("/api/drive/start", { scenario, start });

export const stepSession = (session, action) => ask("/api/drive/step", { session, action });
