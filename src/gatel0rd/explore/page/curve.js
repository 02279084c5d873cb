/* The models that a fit went through, from few open gates to many: a curve of events and errors, and a slider along it. */

import { byId, make } from "./dom.js";
import { formatError, plural } from "./format.js";
import { state } from "./state.js";
import { LINE, SOFT, colorOf } from "./theme.js";

const HEIGHT = 92, WIDEST = 620;
const ROOM = { left: 60, right: 12, top: 10, bottom: 24 };

/* The namespace is that of the page's own drawing: no address of another place stands in these files. */
function draw(tag, attributes, text = "") {
  const node = document.createElementNS(byId("aim").namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return node;
}

/* Null if there is nothing to choose from. onPick is called after another point was chosen. */
export function makeCurve(model, place, onPick) {
  const { chosen, curve } = model;
  if (curve.length < 2) return null;
  const start = Math.max(0, curve.findIndex((point) => point.point === chosen));
  const slider = make("input", { type: "range", min: 0, max: curve.length - 1, ariaLabel: `number of events of ${model.name}` });
  slider.value = start;
  const picture = draw("svg", { height: HEIGHT, role: "img", "aria-label": "events per sequence and validation error" });
  const text = make("p", { className: "point" });
  const ends = make("div", { className: "ends" }, make("span", { textContent: "fewer gates open" }), slider, make("span", { textContent: "more" }));
  const node = make("div", { className: "curve" }, picture, ends, text);
  const pick = (index) => {
    slider.value = index;
    state.points[place] = index === start ? null : curve[index].point;
    onPick();
  };
  slider.oninput = () => pick(Number(slider.value));
  const redraw = () => {
    const at = Number(slider.value);
    picture.replaceChildren(...drawCurve(curve, at, start, Math.max(120, Math.min(WIDEST, node.clientWidth)), colorOf(model), pick));
    text.textContent = describe(curve[at], at === start);
  };
  return { node, redraw };
}

function describe({ error, events, open_rate: openRate }, isChosen) {
  const words = [`${plural(events.toFixed(1), "event")} per sequence`, `error ${formatError(error)}`, `${(100 * openRate).toFixed(1)} % open`];
  return `${words.join(" · ")}${isChosen ? " · the fit's choice" : ""}`;
}

function drawCurve(curve, at, start, width, color, pick) {
  const most = Math.max(...curve.map((point) => point.events), 1e-9);
  const [low, high] = [Math.min, Math.max].map((pickOne) => pickOne(...curve.map((point) => point.error)));
  const x = (events) => ROOM.left + (events / most) * (width - ROOM.left - ROOM.right);
  const y = (error) => ROOM.top + (high > low ? (high - error) / (high - low) : 0.5) * (HEIGHT - ROOM.top - ROOM.bottom);
  const floor = HEIGHT - ROOM.bottom + 6;
  const label = (place, text, anchor) => draw("text", { ...place, fill: SOFT, "font-size": 10.5, "text-anchor": anchor }, text);
  const dots = curve.map((point, index) => {
    const dot = draw("circle", {
      cx: x(point.events), cy: y(point.error), r: index === at ? 5 : 3.2, stroke: color, "stroke-width": index === start ? 2 : 1,
      fill: index === at ? color : "#fff", class: index === at ? "dot here" : "dot",
    });
    dot.addEventListener("click", () => pick(index));
    return dot;
  });
  dots.push(dots.splice(at, 1)[0]); // above the others
  return [
    draw("path", { d: `M${ROOM.left - 6} ${ROOM.top - 4}V${floor}H${width - ROOM.right + 6}`, fill: "none", stroke: LINE }),
    draw("polyline", {
      points: curve.map((point) => `${x(point.events)},${y(point.error)}`).join(" "), fill: "none", stroke: color, opacity: 0.35,
    }),
    ...dots,
    label({ x: ROOM.left - 10, y: ROOM.top + 5 }, formatError(high), "end"),
    label({ x: ROOM.left - 10, y: floor - 4 }, formatError(low), "end"),
    label({ x: ROOM.left, y: HEIGHT - 5 }, "0", "middle"),
    label({ x: width - ROOM.right, y: HEIGHT - 5 }, most.toFixed(1), "end"),
    label({ x: (ROOM.left + width) / 2, y: HEIGHT - 5 }, "events per sequence, and validation error", "middle"),
  ];
}
