/* The page begins here: load the overview, build both tabs, show the first sequence. */

import { loadOverview } from "./api.js";
import { drawColumns } from "./columns.js";
import { byId, hideError, showError } from "./dom.js";
import { buildDriveView, openDriveView } from "./drive_view.js";
import { buildSequenceView, openSequence } from "./sequence_view.js";
import { isLive, state } from "./state.js";
import { drawWatchers } from "./watchers.js";

const TABS = ["explore", "drive"];
const RESIZE_PAUSE = 150; // milliseconds

async function showTab(name) {
  for (const tab of TABS) {
    byId(tab).hidden = tab !== name;
    byId(`tab-${tab}`).setAttribute("aria-selected", String(tab === name));
  }
  byId("legend").hidden = name !== "explore";
  if (name === "drive") await openDriveView();
  else drawColumns();
}

function redrawAfterResize() {
  let timer = null;
  window.addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(byId("explore").hidden ? drawWatchers : drawColumns, RESIZE_PAUSE);
  });
}

async function begin() {
  byId("banner").lastElementChild.onclick = hideError;
  state.overview = await loadOverview();
  document.body.classList.toggle("still", !isLive());
  buildSequenceView();
  buildDriveView();
  for (const tab of TABS) byId(`tab-${tab}`).onclick = () => showTab(tab);
  redrawAfterResize();
  await openSequence(0);
  document.body.dataset.ready = "true";
}

begin().catch((error) => showError(error.message));
