/* The pointer over a model's plots: moving it moves the cursor, a click pins a step, a drag zooms all columns. */

import { moveCursor } from "./cursor.js";
import { byId } from "./dom.js";
import { MARGIN } from "./plots.js";
import { clampStep, state } from "./state.js";

const CLICK = 4; // pixels that a click may move

export function linkPointer(column, redraw) {
  const stepAt = (event) => {
    const box = column.plot.getBoundingClientRect(), [low, high] = column.plot.layout.xaxis.range;
    const share = (event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right);
    return Math.round(low + share * (high - low));
  };
  let pressed = null;
  column.holder.addEventListener("mousemove", (event) => moveCursor(stepAt(event)));
  column.holder.addEventListener("mouseleave", () => moveCursor(state.pinned));
  column.holder.addEventListener("mousedown", (event) => {
    pressed = event;
    if (byId("variables").contains(document.activeElement)) document.activeElement.blur();
  }, true);
  window.addEventListener("mouseup", (event) => {
    if (pressed && Math.hypot(event.clientX - pressed.clientX, event.clientY - pressed.clientY) < CLICK) {
      state.pinned = clampStep(stepAt(event));
      moveCursor(state.pinned);
    }
    pressed = null;
  }, true);
  const zoom = (range) => {
    const same = JSON.stringify(range) === JSON.stringify(state.zoom);
    state.zoom = range;
    if (!same) redraw();
  };
  column.plot.on("plotly_relayout", (change) => {
    if ("xaxis.autorange" in change) zoom(null);
    else if ("xaxis.range[0]" in change || "xaxis.range" in change) zoom([...column.plot.layout.xaxis.range]);
  });
  column.plot.on("plotly_doubleclick", () => {
    state.zoom = null;
    redraw();
    return false;
  });
}
