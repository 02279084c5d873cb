/* Worlds without actions: a click in the picture places something, a drag gives it a velocity. */

import { byId } from "./dom.js";
import { state } from "./state.js";

const shot = () => state.drive.world?.steering.shot;

const pictureBox = () => byId("frame").getBoundingClientRect();

/* From the screen to the units of a place, with the origin in the middle of the picture, and back. */
function placeOf(event) {
  const box = pictureBox(), [x, y] = shot().half_picture;
  return [((event.clientX - box.left) / box.width * 2 - 1) * x, (1 - (event.clientY - box.top) / box.height * 2) * y];
}

function pixelOf([x, y]) {
  const box = pictureBox(), [width, height] = shot().half_picture;
  return [(x / width + 1) / 2 * box.width, (1 - y / height) / 2 * box.height];
}

function velocityOf(from, to) {
  const drag = to.map((value, axis) => (value - from[axis]) * shot().speed[axis]);
  const speed = Math.hypot(...drag);
  return speed > shot().fastest ? drag.map((value) => value * shot().fastest / speed) : drag;
}

const isDrag = (velocity) => Math.hypot(...velocity) > 0.05 * shot().fastest;

const currentPlace = () => shot().observed.map((index) => state.drive.observation[index]);

function drawAim(start, end) {
  const ends = { x1: start[0], y1: start[1], x2: end[0], y2: end[1] };
  for (const [name, value] of Object.entries(ends)) byId("aim").firstElementChild.setAttribute(name, value);
}

export function listenToShots(shoot) {
  let from = null;
  byId("stage").addEventListener("pointerdown", (event) => {
    if (!shot() || !event.isPrimary) return;
    from = placeOf(event);
    state.drive.moving = false;
    event.preventDefault();
  });
  window.addEventListener("pointermove", (event) => {
    if (!from) return;
    const velocity = velocityOf(from, placeOf(event)), start = currentPlace();
    // as far as the pointer was dragged, unless that would be too fast
    if (isDrag(velocity)) drawAim(pixelOf(start), pixelOf(start.map((value, axis) => value + velocity[axis] / shot().speed[axis])));
  });
  window.addEventListener("pointerup", async (event) => {
    if (!from) return;
    const velocity = velocityOf(from, placeOf(event)), dragged = isDrag(velocity);
    const place = (dragged ? currentPlace() : from)
      .map((value, axis) => Math.max(-shot().reach[axis], Math.min(shot().reach[axis], value)));
    from = null;
    drawAim([0, 0], [0, 0]);
    await shoot({ [shot().place]: place, [shot().velocity]: dragged ? velocity : [0, 0] });
    state.drive.moving = dragged;
  });
  window.addEventListener("pointercancel", () => {
    from = null;
    drawAim([0, 0], [0, 0]);
  });
}
