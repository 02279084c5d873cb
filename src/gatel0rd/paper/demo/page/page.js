/* The demo's page: a player for sequences, with memories below what each network predicts; errors, gate table, commands. */
"use strict";

const content = JSON.parse(document.getElementById("content").textContent);
const COLORS = { gatel0rd: "#c0392b", gru: "#6f9a3e" };
const DIMENSIONS = ["#c0392b", "#2f6fa7", "#6f9a3e", "#8569b0", "#e19c24", "#18a0a0", "#8c564b", "#d170a8"];
const SVG = "http://www.w3.org/2000/svg";
const PAUSE = 130, REST = 2200; // milliseconds between frames, and before it starts again
const CHART = { width: 440, left: 6, right: 6, memory: 104, gap: 20, strip: 80 };
const STORY_LEAD = 4; // steps for which a line of the story is "now"

const byId = (id) => document.getElementById(id);
const state = { sequence: content.sequences[0], step: 0, playing: false, timer: null, panes: [] };

function make(tag, attributes = {}, ...children) {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children);
  return element;
}

function draw(tag, attributes, parent) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent?.append(element);
  return element;
}

function label(text, attributes, parent) {
  draw("text", attributes, parent).textContent = text;
}

const percent = (value) => `${(100 * value).toFixed(1).replace(/^100\.0$/, "100")}\u00a0%`;

const short = (value) => (value >= 0.01 ? value.toFixed(3) : value.toPrecision(2));

/* ---- the player ---- */

function makeScene(scene) {
  const element = make("div", { className: "scene", role: "img" });
  element.style.aspectRatio = `${scene.width} / ${scene.height}`;
  element.style.backgroundImage = `url(${scene.picture})`;
  element.style.backgroundSize = `${100 * scene.columns}% ${100 * scene.rows}%`;
  return {
    element,
    show(step) {
      const x = step % scene.columns, y = Math.floor(step / scene.columns);
      element.style.backgroundPosition = `${(100 * x) / (scene.columns - 1)}% ${(100 * y) / Math.max(1, scene.rows - 1)}%`;
    },
  };
}

/* Latent states as lines, and below them which dimension changes at which step; what is still to come is pale. */
function makeMemory(shown, event, range) {
  const steps = shown.latents.length, size = shown.latents[0].length;
  const { width, left, right, memory, gap, strip } = CHART, top = 14;
  const height = top + memory + gap + strip + 4, cell = (width - left - right) / steps, row = strip / size;
  const x = (step) => left + cell * step;
  const y = (value) => top + memory * (1 - (value - range[0]) / (range[1] - range[0]));
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img" });
  const largest = Math.max(...shown.changes.flat());
  const layers = ["0.16", "1"].map((opacity, place) => {
    const group = draw("g", { opacity }, svg);
    for (let dim = 0; dim < size; dim++) {
      const points = [[0, 0], ...shown.latents.map((values, step) => [step + 1, values[dim]])];
      const path = points.flatMap(([step, value], index) => index
        ? [`${x(step - 1)},${y(value)}`, `${x(step)},${y(value)}`] : [`${x(0)},${y(0)}`]);
      draw("polyline", { points: path.join(" "), fill: "none", stroke: DIMENSIONS[dim % 8], "stroke-width": 1.8 }, group);
      shown.changes.forEach((values, step) => {
        if (!values[dim]) return;
        const strength = 0.25 + 0.75 * Math.sqrt(values[dim] / largest);
        draw("rect", {
          x: x(step), y: top + memory + gap + row * dim + 0.5, width: Math.max(1, cell - 0.6), height: row - 1,
          fill: DIMENSIONS[dim % 8], opacity: strength.toFixed(2),
        }, group);
      });
    }
    if (place) draw("rect", { x: 0, y: 0, width: 0, height }, draw("clipPath", { id: `clip${Math.random().toString(36).slice(2)}` }, svg));
    return group;
  });
  const clip = svg.querySelector("clipPath");
  layers[1].setAttribute("clip-path", `url(#${clip.id})`);
  draw("rect", { x: left, y: top + memory + gap, width: width - left - right, height: strip, fill: "none", stroke: "#e7e2d8" }, svg);
  label(`memory: its ${size} numbers, relative to the start`, { x: left, y: 10, class: "label" }, svg);
  label("which of them change", { x: left, y: top + memory + gap - 5, class: "label" }, svg);
  if (event !== null) {
    draw("line", { x1: x(event), x2: x(event), y1: top, y2: height, stroke: "#c0392b", "stroke-dasharray": "2 3" }, svg);
    const place = Math.min(Math.max(x(event) + 4, left + 134), width - 96); // right of the other label, and inside
    label("at the computer", { x: place, y: top + memory + gap - 5, class: "event-text" }, svg);
  }
  const cursor = draw("line", { y1: top, y2: height, stroke: "#22262b", "stroke-width": 1 }, svg);
  return {
    element: svg,
    show(step) {
      clip.firstElementChild.setAttribute("width", x(step));
      for (const name of ["x1", "x2"]) cursor.setAttribute(name, x(step));
    },
  };
}

/* What happens, line by line. */
function makeStory({ event, steps }) {
  const lines = event === null
    ? [[0, "The agent walks about; it never reaches the computer."], [STORY_LEAD, "The robot stands still, and there is nothing to remember."]]
    : [[0, "The agent walks about, the robot stands still."], [event, `Step ${event}: the agent is at the computer.`],
      [event + 1, "From now on the robot moves as the agent does. Nothing that can be seen says why."]];
  const element = make("ul", { className: "story" }, ...lines.map(([, text]) => make("li", { textContent: text })));
  return {
    element,
    show(step) {
      lines.forEach(([from], index) => element.children[index].classList.toggle("now", step >= from));
    },
  };
}

function makePane(title, color, ...parts) {
  const side = make("small");
  const heading = make("h3", {}, ...(color ? [Object.assign(make("i"), { style: `background: ${color}` })] : []), title, side);
  return { element: make("section", { className: "pane" }, heading, ...parts.map((part) => part.element ?? part)), side };
}

function buildPanes() {
  const { sequence } = state;
  const values = sequence.networks.flatMap((network) => network.latents.flat());
  const margin = 0.06 * (Math.max(...values) - Math.min(...values, 0)) || 1;
  const range = [Math.min(...values, 0) - margin, Math.max(...values, 0) + margin];
  const scene = makeScene(sequence.scene), story = makeStory(sequence);
  const left = makePane("What happens", null, scene, story);
  state.panes = [{ show(step) { scene.show(step); story.show(step); } }];
  const panes = sequence.networks.map((shown, place) => {
    const { cell, title } = content.networks[place];
    const picture = makeScene(shown.scene), memory = makeMemory(shown, sequence.event, range);
    const times = shown.changed_steps === 1 ? "1 step" : `${shown.changed_steps} steps`;
    const summary = make("p", { className: "summary" }, "The memory changes at ", make("b", { textContent: times }), ` of ${sequence.steps - 1}.`);
    const pane = makePane(`What ${cell === "gru" ? "the GRU" : title} predicts`, COLORS[cell], picture, memory, summary);
    state.panes.push({ show(step) {
      picture.show(step);
      memory.show(step);
      pane.side.textContent = step ? `robot off by ${shown.distance[step].toFixed(2)}` : "";
    } });
    return pane.element;
  });
  byId("panes").replaceChildren(left.element, ...panes);
  const { single, median, none } = content.events;
  byId("reason").textContent = `${sequence.reason} It is sequence ${sequence.index + 1} of the test set. In all of it, gates open in exactly one `
    + `event in ${Math.round(100 * single)} % of the sequences with control (the median is ${median} events), and never in `
    + `${Math.round(100 * none)} % of those without.`;
  byId("time").max = sequence.steps - 1;
}

function show(step) {
  state.step = step;
  for (const pane of state.panes) pane.show(step);
  byId("time").value = step;
  const { event } = state.sequence;
  byId("clock").replaceChildren(`step ${step}`, ...(event !== null && step >= event ? [" · ", make("b", { textContent: "control" })] : []));
}

function tick() {
  const last = state.sequence.steps - 1;
  show(state.step >= last ? 0 : state.step + 1);
  state.timer = setTimeout(tick, state.step >= last ? REST : PAUSE);
}

function play(on) {
  clearTimeout(state.timer);
  state.playing = on;
  byId("play").textContent = on ? "❚❚" : "▶";
  if (on) state.timer = setTimeout(tick, PAUSE);
}

function buildPlayer() {
  byId("sequences").append(...content.sequences.map(({ name }, index) => make("option", { value: index, textContent: name })));
  byId("sequences").onchange = (event) => {
    state.sequence = content.sequences[Number(event.target.value)];
    buildPanes();
    show(0);
    play(true);
  };
  byId("play").onclick = () => play(!state.playing);
  byId("time").oninput = (event) => {
    play(false);
    show(Number(event.target.value));
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === " " && event.target === document.body) {
      event.preventDefault();
      play(!state.playing);
    }
  });
}

/* ---- numbers ---- */

function buildErrors() {
  const [ours, theirs] = content.errors;
  const paper = theirs.unlike.paper.mean / ours.unlike.paper.mean;
  const factor = theirs.unlike.ours / ours.unlike.ours;
  const more = content.training[0].share < 0.95 ? `after ${Number((1 / content.training[0].share).toPrecision(2))} times as many epochs, ` : "";
  byId("errors-text").textContent = factor > 1
    ? `There the GRU's error is ${factor.toFixed(1)} times GateL0RD's (in the paper, ${more}${paper.toFixed(0)} times).`
    : `There GateL0RD's error is ${(1 / factor).toFixed(1)} times the GRU's in these two runs (in the paper, ${more}the GRU's is ${paper.toFixed(0)} times GateL0RD's).`;
  for (const [kind, words] of [["like", "actions like those of training"], ["unlike", "actions unlike them"]]) {
    const values = content.errors.flatMap((error) => [error[kind].ours, error[kind].paper.mean + error[kind].paper.deviation]);
    const most = Math.max(...values) * 1.02, place = (value) => `${(100 * Math.max(0, value)) / most}%`;
    byId("bars").append(make("p", { className: "group", textContent: words }));
    content.errors.forEach((error, index) => {
      const { ours: value, paper: { mean, deviation } } = error[kind], { cell, title } = content.networks[index];
      const fill = make("div", { className: "fill" }), tick = make("div", { className: "tick" }), spread = make("div", { className: "spread" });
      Object.assign(fill.style, { width: place(value), background: COLORS[cell] });
      tick.style.left = place(mean);
      Object.assign(spread.style, { left: place(mean - deviation), right: `calc(100% - ${place(mean + deviation)})` });
      const track = make("div", { className: "track", title: `the paper's: ${mean} ± ${deviation}` }, fill, spread, tick);
      byId("bars").append(make("div", { className: "bar" }, make("span", { textContent: title }), track, make("b", { textContent: short(value) })));
    });
  }
}

function buildGates() {
  const [ours, theirs] = content.changed;
  byId("gates-text").textContent = `From one step to the next, ${percent(ours)} of GateL0RD's memory changes; of the GRU's, ${percent(theirs)}.`;
  const rows = [["the agent has just reached the computer", "hits", "misses"], ["at any other time", "false_alarms", "correct_rejections"]];
  for (const [words, ...rates] of rows) {
    const cells = rates.map((rate) => {
      const { ours: value, paper } = content.gating[rate];
      const note = make("small", { textContent: `paper ${percent(paper.mean)} ±\u00a0${(100 * paper.deviation).toFixed(1)}` });
      return make("td", {}, make("b", { textContent: percent(value) }), note);
    });
    byId("rates").append(make("tr", {}, make("th", { scope: "row", textContent: words }), ...cells));
  }
}

function buildCommands() {
  byId("commands").append(...content.commands.flatMap(([command, words]) =>
    [make("dt", {}, make("code", { textContent: command })), make("dd", { textContent: words })]));
}

function buildTraining() {
  const [first] = content.training;
  const each = content.training.map(({ title, seconds, parameters }) => `${title} (${parameters} parameters) in ${Math.round(seconds)} s`).join(", ");
  byId("training").textContent = `Trained for this page: ${each}; ${first.epochs} epochs, seed ${first.seed}, λ = ${first.sparsity}, `
    + `${content.data_words}, ${first.processor}. One seed each: the report (gatel0rd report) compares many and judges the paper's claims.`;
}

buildPlayer();
buildPanes();
buildErrors();
buildGates();
buildCommands();
buildTraining();
show(0);
const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
if (still) show(state.sequence.steps - 1);
play(!still);
document.body.dataset.ready = "true";
