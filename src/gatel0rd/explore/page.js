"use strict";
(() => {
  const COLORS = { gatel0rd: "#c0392b", lstm: "#2f6fa7", gru: "#6f9a3e", elman: "#8569b0" };
  const INK = "#22262b", SOFT = "#6b7078", LINE = "#dedad1", EDITED = "#b7791f", STILL = "#c9c6be";
  const FONT = getComputedStyle(document.body).fontFamily;
  const QUIET = { staticPlot: false, displayModeBar: false, doubleClick: "reset", responsive: true, scrollZoom: false };
  const LEFT = 40, RIGHT = 8, TOP = 16, BOTTOM = 36, GAP = 22;
  const $ = (id) => document.getElementById(id);
  const make = (tag, props = {}, ...inside) => {
    const node = Object.assign(document.createElement(tag), props);
    node.append(...inside);
    return node;
  };
  const colorOf = (model) => COLORS[model.cell] || "#4d5661";
  const CELLS = { gatel0rd: "GateL0RD", lstm: "LSTM", gru: "GRU", elman: "Elman RNN" };
  const tint = (color, share) => {
    const parts = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
    return `rgb(${parts.map((part) => Math.round(255 - (255 - part) * share)).join(",")})`;
  };
  const shown = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(4))));
  const small = (value) => {
    if (value === null) return "–";
    const [digits, power] = value.toExponential(1).split("e");
    return value && (value < 1e-3 || value >= 1e4) ? `${digits}·10${superscript(power)}` : value.toPrecision(2);
  };
  const superscript = (power) => [...String(Number(power))].map((sign) => ({ "-": "⁻" })[sign] || "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign]).join("");
  const extent = (rows) => {
    let low = Infinity, high = -Infinity;
    for (const row of rows) for (const value of row) {
      if (value === null) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    return low <= high ? [low, high] : [0, 1];
  };
  const padded = ([low, high]) => {
    const space = high > low ? 0.08 * (high - low) : Math.abs(high) || 1;
    return [low - space, high + space];
  };

  function complain(message) {
    $("banner").firstElementChild.textContent = message;
    $("banner").hidden = false;
  }
  $("banner").lastElementChild.onclick = () => { $("banner").hidden = true; };

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
    $("banner").hidden = true;
    return content;
  }

  /* ---------- figures: panels above each other with one axis of time ---------- */

  function figure(panels, { steps, range, events = [], free = null, color, height }) {
    const inner = panels.reduce((sum, panel) => sum + panel.height, 0) + GAP * (panels.length - 1);
    const layout = {
      height: height || inner + TOP + BOTTOM, margin: { l: LEFT, r: RIGHT, t: TOP, b: BOTTOM },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "#fff", showlegend: false, hovermode: false, dragmode: "zoom",
      font: { family: FONT, size: 11, color: SOFT }, annotations: [], shapes: [],
      xaxis: {
        range: range || [-0.5, steps - 0.5], anchor: `y${panels.length}`, zeroline: false, gridcolor: "#f0ede6",
        linecolor: LINE, ticks: "outside", tickcolor: LINE, ticklen: 3, nticks: 7,
        title: { text: "step", standoff: 4, font: { size: 11 } },
      },
    };
    const data = [];
    let top = 1;
    panels.forEach((panel, place) => {
      const bottom = Math.max(0, top - panel.height / inner), axis = `y${place + 1}`;
      layout[`yaxis${place + 1}`] = {
        domain: [bottom, top], fixedrange: true, zeroline: false, gridcolor: "#f0ede6", nticks: 4, range: panel.range,
        showline: true, linecolor: LINE, ...panel.axis,
      };
      layout.annotations.push({
        text: panel.title, x: 0, xref: "paper", xanchor: "left", y: top, yref: "paper", yanchor: "bottom",
        showarrow: false, font: { size: 11.5, color: INK }, borderpad: 1,
      });
      const marks = {
        type: "scatter", mode: "lines", name: "events", line: { color, width: 1, dash: "dot" }, opacity: 0.75,
        x: events.flatMap((step) => [step, step, null]), y: events.flatMap(() => [...panel.range, null]),
      };
      for (const trace of [marks, ...panel.traces]) data.push({ ...trace, xaxis: "x", yaxis: place ? axis : "y" });
      const whole = { type: "rect", xref: "paper", yref: "paper", x0: 0, x1: 1, y0: bottom, y1: top };
      layout.shapes.push({ ...whole, line: { color: LINE, width: 1 } });
      if (free !== null) {
        layout.shapes.push({
          ...whole, xref: "x", x0: free, x1: steps - 0.5, fillcolor: "#f6f2e9", line: { width: 0 }, layer: "below",
        });
      }
      top = bottom - GAP / inner;
    });
    layout.yaxis = layout.yaxis1;
    delete layout.yaxis1;
    if (panels.length === 1) layout.xaxis.anchor = "y";
    return { data, layout };
  }

  function latentPanel(latents, color, range, height, title = "latent state <i>h</i>", first = 0) {
    const moves = latents.map((row) => { const [low, high] = extent([row]); return high - low; });
    const largest = Math.max(...moves, 1e-9);
    const order = latents.map((_, dimension) => dimension).sort((a, b) => moves[a] - moves[b]);
    const shades = [1, 0.72, 0.5];
    return {
      title, height, range,
      traces: order.map((dimension) => {
        const still = moves[dimension] < 0.03 * largest || moves[dimension] < 1e-4;
        return {
          type: "scatter", mode: "lines", name: `h${dimension + 1}`,
          x: latents[dimension].map((_, step) => step + first), y: latents[dimension],
          line: { width: still ? 1 : 1.6, color: still ? STILL : tint(color, shades[dimension % shades.length]) },
        };
      }),
    };
  }

  const changes = (latents) => latents.map((row) => row.map((value, step) => (step ? Math.abs(value - row[step - 1]) : null)));

  function gatePanel(gates, latents, color, height) {
    const cells = gates || changes(latents);
    const count = cells.length, largest = gates ? 1 : Math.max(extent(cells)[1], 1e-9);
    return {
      title: gates ? "gates Λ" : "no gates: change of state |Δ<i>h</i>|", height, range: [count + 0.5, 0.5],
      axis: { showgrid: false, tickmode: "array", ticks: "", tickvals: count > 12 ? [1, count] : [1, Math.ceil(count / 2), count] },
      traces: [{
        type: "heatmap", name: "gates", z: cells, x: (cells[0] || []).map((_, step) => step), y: cells.map((_, row) => row + 1),
        zmin: 0, zmax: largest, showscale: false, ygap: 1, hoverinfo: "none",
        colorscale: gates
          ? [[0, "rgba(255,255,255,0)"], [1e-6, tint(color, 0.35)], [1, color]]
          : [[0, "rgba(255,255,255,0)"], [0.02, tint(color, 0.06)], [1, tint(color, 0.9)]],
      }],
    };
  }

  /* ---------- explore ---------- */

  const state = {
    overview: null, saved: null, sequence: 0, values: {}, courses: [], visible: new Set(), edits: new Map(),
    free: null, pinned: 0, at: 0, zoom: null,
  };
  const live = () => state.overview.live;
  const steps = () => state.overview.sequences[state.sequence].length;
  const editKey = (step, variable) => `${step} ${variable}`;
  const valueAt = (variable, step) => {
    const edit = state.edits.get(editKey(step, variable));
    return edit ? edit.value : state.values[variable][step];
  };
  let columns = [];

  async function openSequence(index) {
    state.sequence = index;
    state.edits.clear();
    state.zoom = null;
    state.values = (live() ? await ask("/api/sequence", { sequence: index }) : state.saved[index]).values;
    if (state.sequence !== index) return;
    const first = Math.max(...state.overview.models.map((model) => model.init_steps));
    const entry = state.overview.sequences[index];
    $("free").min = Math.min(first, steps() - 1);
    $("free").max = steps() - 1;
    $("free").value = steps() - 1;
    state.free = null;
    $("cut").hidden = entry.length === entry.whole_length;
    $("cut").textContent = `The first ${entry.length} of ${entry.whole_length} steps are shown.`;
    state.pinned = state.at = 0;
    await predict();
  }

  let asked = 0, busy = false, again = false;
  async function predict() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      do {
        again = false;
        const sequence = state.sequence, number = ++asked;
        const edits = [...state.edits.values()];
        const courses = live()
          ? await Promise.all(state.overview.models.map((_, model) =>
            ask("/api/predict", { model, sequence, real_steps: state.free, edits })))
          : state.saved[sequence].courses;
        if (number === asked && sequence === state.sequence) {
          state.courses = courses;
          draw();
        }
      } while (again);
    } catch (error) {
      complain(error.message);
    } finally {
      busy = false;
    }
  }

  function draw() {
    const { models, variables } = state.overview;
    const total = steps(), every = Array.from({ length: total }, (_, step) => step);
    const rows = variables.filter((variable) => state.visible.has(variable.name));
    const room = $("columns").clientHeight - 100;
    const most = Math.max(...state.courses.map((course) => (course.gates || course.latents).length));
    const gateHeight = Math.min(150, Math.max(72, 10 * most)), latentHeight = 120;
    const left = room - TOP - BOTTOM - gateHeight - latentHeight - GAP * (rows.length + 1);
    const rowHeight = Math.max(56, Math.min(120, left / Math.max(1, rows.length)));
    const ranges = {};
    for (const { name, spread } of rows) {
      let [low, high] = extent([every.map((step) => valueAt(name, step))]);
      const missing = Math.max(0, (spread || 0) / 8 - (high - low)); // what hardly changes is not magnified
      [low, high] = [low - missing / 2, high + missing / 2];
      const span = high - low || 1;
      const [under, over] = extent([[low, high], ...state.courses.map((course) => course.predictions[name] || [])]);
      ranges[name] = padded([Math.max(under, low - span / 2), Math.min(over, high + span / 2)]);
    }
    const latentRange = padded(extent(state.courses.flatMap((course) => course.latents)));
    models.forEach((model, place) => {
      const course = state.courses[place], color = colorOf(model);
      const panels = rows.map(({ name, kind }) => {
        const recorded = every.map((step) => valueAt(name, step));
        const traces = [{
          type: "scatter", mode: "lines", name: `${name} recorded`, x: every, y: recorded,
          line: { color: kind === "action" ? SOFT : INK, width: 1.3, shape: kind === "action" ? "hv" : "linear" },
        }];
        const predicted = course.predictions[name];
        if (predicted) {
          traces.push({
            type: "scatter", mode: "lines", name: `${name} predicted`, x: every.slice(1), y: predicted,
            line: { color, width: 1.9 },
          });
        }
        const edits = [...state.edits.values()].filter((edit) => edit.variable === name);
        if (edits.length) {
          traces.push({
            type: "scatter", mode: "markers", name: `${name} edited`, x: edits.map((edit) => edit.step),
            y: edits.map((edit) => edit.value),
            marker: { symbol: "diamond", size: 9, color: "#fdf4e1", line: { color: EDITED, width: 2 } },
          });
        }
        return { title: kind === "action" ? `<i>${escaped(name)}</i>` : escaped(name), height: rowHeight, range: ranges[name], traces };
      });
      panels.push(latentPanel(course.latents, color, latentRange, latentHeight));
      panels.push(gatePanel(course.gates, course.latents, color, gateHeight));
      const free = state.free === null ? null : state.free;
      const { data, layout } = figure(panels, { steps: total, range: state.zoom, events: course.events, free, color });
      layout.xaxis.title.text = place === 0 ? "step" : " ";
      const column = columns[place];
      Plotly.react(column.plot, data, layout, QUIET);
      if (!column.linked) link(column);
      const error = course.free_error === null
        ? `one-step error: ${small(course.one_step_error)}`
        : `error after ${course.real_steps}: ${small(course.free_error)}`;
      const openings = course.gates
        ? ` · ${course.events.length} event${course.events.length === 1 ? "" : "s"} · ${(100 * course.open_rate).toFixed(1)} % open`
        : "";
      column.summary.textContent = error + openings;
      column.summary.title = "Mean squared error, in the model's units; events are moments at which a gate opens.";
    });
    if (live()) {
      $("free-text").textContent = state.free === null ? "off: every input is real" : `from step ${state.free} on`;
      $("reset").disabled = state.edits.size === 0;
    }
    moveTo(state.at);
  }

  const escaped = (text) => text.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);

  function moveTo(step) {
    state.at = Math.max(0, Math.min(steps() - 1, step));
    $("at").textContent = `at step ${state.at}`;
    for (const row of $("variables").children) {
      const name = row.dataset.name, input = row.querySelector("input[type=number]");
      input.classList.toggle("edited", state.edits.has(editKey(state.at, name)));
      if (document.activeElement !== input) input.value = shown(valueAt(name, state.at));
    }
    columns.forEach((column, place) => {
      const layout = column.plot.layout, [low, high] = layout.xaxis.range;
      const width = column.plot.clientWidth - LEFT - RIGHT;
      for (const [node, at] of [[column.cursor, state.at], [column.pin, state.pinned]]) {
        const x = (at - low) / (high - low);
        node.hidden = x < 0 || x > 1 || (node === column.pin && state.pinned === state.at);
        node.style.left = `${LEFT + x * width}px`;
        node.style.top = `${TOP}px`;
        node.style.height = `${layout.height - TOP - BOTTOM}px`;
      }
      const course = state.courses[place];
      const open = (course.gates || []).map((row, dimension) => (row[state.at] > 0 ? dimension + 1 : 0)).filter(Boolean);
      const moved = course.latents.filter((row) => state.at && Math.abs(row[state.at] - row[state.at - 1]) > 1e-3).length;
      const gates = !course.gates ? `${moved} of ${course.latents.length} dimensions change` : open.length ? `gate${open.length > 1 ? "s" : ""} ${open.join(", ")} open` : "all gates closed";
      column.reading.textContent = `step ${state.at}: ${state.at < steps() - 1 ? gates : "the end"}`;
    });
  }

  function link(column) {
    column.linked = true;
    const stepAt = (event) => {
      const box = column.plot.getBoundingClientRect(), [low, high] = column.plot.layout.xaxis.range;
      return Math.round(low + (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT) * (high - low));
    };
    let pressed = null;
    column.holder.addEventListener("mousemove", (event) => moveTo(stepAt(event)));
    column.holder.addEventListener("mouseleave", () => moveTo(state.pinned));
    column.holder.addEventListener("mousedown", (event) => {
      pressed = event;
      if ($("variables").contains(document.activeElement)) document.activeElement.blur();
    }, true);
    window.addEventListener("mouseup", (event) => {
      if (pressed && Math.hypot(event.clientX - pressed.clientX, event.clientY - pressed.clientY) < 4) {
        state.pinned = Math.max(0, Math.min(steps() - 1, stepAt(event)));
        moveTo(state.pinned);
      }
      pressed = null;
    }, true);
    column.plot.on("plotly_relayout", (change) => {
      if ("xaxis.range[0]" in change || "xaxis.range" in change || "xaxis.autorange" in change) {
        const range = "xaxis.autorange" in change ? null : [...column.plot.layout.xaxis.range];
        const same = JSON.stringify(range) === JSON.stringify(state.zoom);
        state.zoom = range;
        if (!same) draw();
      }
    });
    column.plot.on("plotly_doubleclick", () => { state.zoom = null; draw(); return false; });
  }

  function buildExplore() {
    const { models, sequences, variables } = state.overview;
    const observed = variables.filter((variable) => variable.kind === "observation");
    state.visible = new Set(observed.slice(0, 4).map((variable) => variable.name));
    $("sequences").append(...sequences.map((entry, index) =>
      make("option", { value: index, textContent: `${entry.name} · ${entry.whole_length} steps` })));
    $("sequences").value = "0";
    $("sequences").onchange = (event) => openSequence(Number(event.target.value)).catch((error) => complain(error.message));
    $("free").oninput = (event) => {
      const value = Number(event.target.value);
      state.free = value >= steps() - 1 ? null : value;
      predict();
    };
    $("variables").append(...variables.map(({ name, kind }) => {
      const check = make("input", { type: "checkbox", checked: state.visible.has(name) });
      check.onchange = () => {
        state.visible[check.checked ? "add" : "delete"](name);
        draw();
      };
      const input = make("input", { type: "number", step: "any", disabled: !live(), ariaLabel: `value of ${name}` });
      input.onfocus = () => moveTo(state.pinned);
      input.onchange = () => {
        const value = input.valueAsNumber;
        if (!Number.isFinite(value)) { input.value = shown(valueAt(name, state.pinned)); return; }
        state.edits.set(editKey(state.pinned, name), { step: state.pinned, variable: name, value });
        state.visible.add(name);
        check.checked = true;
        predict();
      };
      const row = make("div", { className: `variable ${kind}` }, make("label", { title: `${name} (${kind}): show or hide` }, check, name), input);
      row.dataset.name = name;
      return row;
    }));
    $("reset").onclick = () => { state.edits.clear(); predict(); };
    columns = models.map((model) => {
      const column = {
        plot: make("div", { className: "plot" }), cursor: make("div", { className: "cursor" }),
        pin: make("div", { className: "cursor pin" }), summary: make("p", { className: "summary" }), reading: make("p", { className: "reading" }),
      };
      column.holder = make("div", { className: "holder" }, column.plot, column.pin, column.cursor);
      $("columns").append(make("section", { className: "column" }, title(model), column.summary, column.reading, column.holder));
      return column;
    });
  }

  function title(model) {
    const dot = make("span", { className: "dot" });
    dot.style.background = colorOf(model);
    const cell = CELLS[model.cell] || model.cell;
    const twice = state.overview.models.filter((other) => other.cell === model.cell).length > 1;
    return make("h3", { title: model.name }, dot, twice ? model.name : cell);
  }

  /* ---------- drive ---------- */

  const drive = { session: null, scenario: null, steering: null, held: new Set(), queue: [], working: false, grasp: 1, watchers: [], observation: [] };
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const HELP = {
    arrows: "<kbd>←</kbd> <kbd>↑</kbd> <kbd>↓</kbd> <kbd>→</kbd> move the agent; reach the computer, then drive the robot to the goal.",
    "arrows-grasp": "<kbd>←</kbd> <kbd>↑</kbd> <kbd>↓</kbd> <kbd>→</kbd> move, <kbd>space</kbd> holds or lets go of the cage, <kbd>.</kbd> waits a step.",
    shots: "Click to place the ball; drag to shoot it in that direction.",
  };
  const LONGEST_ROLL = 300;
  const TABLE = { half: [1, 0.5], frame: 0.09, fastest: 2 };

  function actionNow() {
    if (drive.steering === "shots") return [];
    const action = [0, 0];
    for (const key of drive.held) ARROWS[key].forEach((part, axis) => { action[axis] += part; });
    return drive.steering === "arrows-grasp" ? [...action, drive.grasp] : action;
  }

  async function startDrive(start = {}, seed = null) {
    drive.queue = [];
    drive.session = null;
    try {
      const begun = await ask("/api/drive/start", { scenario: drive.scenario, start, ...(seed === null ? {} : { seed }) });
      drive.session = begun.session;
      drive.grasp = 1;
      drive.watchers.forEach((watcher) => { watcher.latents = []; watcher.gates = []; watcher.told.textContent = ""; });
      $("log").replaceChildren();
      $("now").textContent = drive.steering === "shots" ? "The ball waits." : "The agent waits.";
      drive.watchers.forEach(drawWatcher);
      showFrame(begun);
    } catch (error) {
      complain(error.message);
    }
  }

  function showFrame(answer) {
    $("frame").src = answer.frame;
    $("clock").textContent = `step ${answer.step}${drive.steering === "arrows-grasp" ? ` · ${answer.info.carried ? "holding the cage" : "hands free"}` : ""}`;
    drive.observation = answer.observation;
    $("drive").dataset.step = answer.step;
    $("drive").dataset.observation = JSON.stringify(answer.observation);
  }

  function enqueue(action) {
    drive.queue.push(action);
    work();
  }

  async function work() {
    if (drive.working) return;
    drive.working = true;
    try {
      while (drive.queue.length && drive.session) {
        const session = drive.session;
        const answer = await ask("/api/drive/step", { session, action: drive.queue.shift() });
        if (session === drive.session) take(answer);
      }
    } catch (error) {
      drive.queue = [];
      $("running").checked = false;
      complain(error.message);
    } finally {
      drive.working = false;
    }
  }

  function note(step, text, kind, color) {
    const line = make("li", { className: kind }, make("b", { textContent: step }), make("span", { textContent: text }));
    if (color) line.style.color = color;
    $("log").prepend(line);
    while ($("log").children.length > 60) $("log").lastChild.remove();
  }

  const sentence = (text) => text[0].toUpperCase() + text.slice(1);

  function take(answer) {
    showFrame(answer);
    const said = [...answer.words];
    answer.models.forEach((told, place) => {
      const watcher = drive.watchers[place];
      for (const row of told.rows) {
        row.latents.forEach((value, dimension) => { (watcher.latents[dimension] ||= []).push(value); });
        (row.gates || []).forEach((value, dimension) => { (watcher.gates[dimension] ||= []).push(value); });
      }
      const open = (told.rows.at(-1)?.gates || []).filter((gate) => gate > 0).length;
      watcher.told.textContent = [
        told.error === null ? "waits for its first inputs" : `one-step error ${small(told.error)}`,
        told.rows.at(-1)?.gates ? (open ? `${open} gate${open > 1 ? "s" : ""} open` : "all gates closed") : null,
      ].filter(Boolean).join(" · ");
      if (told.words) {
        said.push(`${watcher.label}: ${told.words}`);
        note(watcher.latents[0].length - 1, `${watcher.label}: ${told.words}`, "", colorOf(watcher.model));
      }
      drawWatcher(watcher);
    });
    for (const words of answer.words) note(answer.step, sentence(words), "world");
    if (answer.info.pocketed || answer.step >= LONGEST_ROLL) drive.moving = false;
    const gated = answer.models.filter((told) => told.rows.at(-1)?.gates);
    const open = gated.some((told) => told.rows.at(-1).gates.some((gate) => gate > 0));
    const still = gated.length ? (open ? "No gate opens; some are still open" : "All gates are closed") : "Nothing special";
    $("now").textContent = `${said.length ? sentence(said.join("; ")) : still}.`;
  }

  function openings(gates, first) {
    const found = new Set();
    for (const row of gates) row.forEach((value, step) => { if (step > first && step && value > 0 && !(row[step - 1] > 0)) found.add(step); });
    return [...found];
  }

  function drawWatcher(watcher) {
    const count = watcher.latents.length ? watcher.latents[0].length : 0, window = 60;
    const range = [Math.max(0, count - window) - 0.5, Math.max(window, count) + 0.5];
    const color = colorOf(watcher.model);
    const rows = watcher.latents.length ? watcher.latents : [[]];
    const gates = watcher.gates.length ? watcher.gates : null;
    const room = Math.max(170, Math.min(330, ($("watchers").clientHeight - 30 * drive.watchers.length) / drive.watchers.length));
    const inner = room - TOP - BOTTOM - GAP;
    const [low, high] = extent(rows);
    const { data, layout } = figure([
      latentPanel(rows, color, padded([Math.min(-1, low), Math.max(1, high)]), inner * 0.56),
      gatePanel(gates || (watcher.model.cell === "gatel0rd" ? [[]] : null), rows, color, inner * 0.44),
    ], { steps: range[1], range, color, events: openings(watcher.gates, range[0]) });
    layout.dragmode = false;
    Plotly.react(watcher.plot, data, layout, { ...QUIET, staticPlot: true });
  }

  function chooseScenario(entry) {
    drive.scenario = entry.scenario;
    drive.steering = entry.steering;
    $("keys").innerHTML = HELP[entry.steering];
    $("running-label").hidden = entry.steering === "arrows";
    $("running").checked = entry.steering === "shots";
    $("watchers").replaceChildren();
    drive.watchers = state.overview.models.filter((model) => model.scenario === entry.scenario).map((model) => {
      const heading = title(model), told = make("span", { className: "told" });
      const watcher = { model, told, label: heading.textContent, plot: make("div", { className: "plot" }), latents: [], gates: [] };
      heading.append(told);
      $("watchers").append(make("section", { className: "watcher" }, heading, watcher.plot));
      return watcher;
    });
    $("stage").style.cursor = entry.steering === "shots" ? "crosshair" : "default";
    return startDrive();
  }

  function buildDrive() {
    const { drives } = state.overview;
    if (!drives.length) return;
    $("tab-drive").hidden = false;
    const names = { rrc: "Robot Remote Control", shepherd: "Shepherd", billiard: "Billiard Ball" };
    $("scenario").append(...drives.map((entry, index) => make("option", { value: index, textContent: names[entry.scenario] })));
    $("scenario").onchange = (event) => chooseScenario(drives[Number(event.target.value)]);
    $("new-world").onclick = () => { startDrive(); $("stage").focus(); };

    const driving = (event) => !$("drive").hidden && !event.ctrlKey && !event.metaKey && !event.altKey && event.target.id !== "scenario";
    window.addEventListener("keydown", (event) => {
      if (!driving(event) || drive.steering === "shots") return;
      if (event.key in ARROWS) {
        event.preventDefault();
        if (event.repeat) return;
        drive.held.add(event.key);
        enqueue(actionNow());
      } else if (drive.steering === "arrows-grasp" && [" ", "."].includes(event.key)) {
        event.preventDefault();
        if (event.repeat) return;
        if (event.key === " ") drive.grasp = -drive.grasp;
        enqueue(actionNow());
      }
    });
    window.addEventListener("keyup", (event) => drive.held.delete(event.key));
    window.addEventListener("blur", () => drive.held.clear());
    setInterval(() => {
      if ($("drive").hidden || drive.working || drive.queue.length || !drive.session) return;
      const rolling = drive.steering === "shots" && drive.moving;
      const waits = drive.steering === "arrows-grasp" && $("running").checked;
      if (drive.held.size || waits || (rolling && $("running").checked)) enqueue(actionNow());
    }, 120);

    let from = null;
    const place = (event) => {
      const box = $("frame").getBoundingClientRect(), outer = TABLE.half.map((half) => half + TABLE.frame);
      return [((event.clientX - box.left) / box.width * 2 - 1) * outer[0], (1 - (event.clientY - box.top) / box.height * 2) * outer[1]];
    };
    const pixel = ([x, y]) => {
      const box = $("frame").getBoundingClientRect(), outer = TABLE.half.map((half) => half + TABLE.frame);
      return [(x / outer[0] + 1) / 2 * box.width, (1 - y / outer[1]) / 2 * box.height];
    };
    const ball = () => drive.observation.map((value, axis) => value * TABLE.half[axis]);
    const velocity = (to) => {
      const drag = to.map((value, axis) => 2 * (value - from[axis])), speed = Math.hypot(...drag);
      return drag.map((value) => value * Math.min(1, TABLE.fastest / speed));
    };
    const line = $("aim").firstElementChild;
    const aim = (start, end) => {
      const ends = { x1: start[0], y1: start[1], x2: end[0], y2: end[1] };
      for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value);
    };
    $("stage").addEventListener("mousedown", (event) => {
      if (drive.steering === "shots") { from = place(event); drive.moving = false; event.preventDefault(); }
    });
    window.addEventListener("mousemove", (event) => {
      if (!from) return;
      const speed = velocity(place(event));
      if (Math.hypot(...speed) > 0.1) aim(pixel(ball()), pixel(ball().map((value, axis) => value + speed[axis] / 2)));
    });
    window.addEventListener("mouseup", async (event) => {
      if (!from) return;
      const speed = velocity(place(event)), reach = [0.96, 0.93];
      const clicked = !(Math.hypot(...speed) > 0.1);
      const spot = (clicked ? from.map((value, axis) => value / TABLE.half[axis]) : drive.observation)
        .map((value, axis) => Math.max(-reach[axis], Math.min(reach[axis], value)));
      from = null;
      aim([0, 0], [0, 0]);
      await startDrive({ position: spot, velocity: clicked ? [0, 0] : speed });
      drive.moving = !clicked;
    });
  }

  async function show(name) {
    for (const tab of ["explore", "drive"]) {
      $(tab).hidden = tab !== name;
      $("legend").hidden = name !== "explore";
      $(`tab-${tab}`).setAttribute("aria-selected", String(tab === name));
    }
    if (name === "drive") {
      $("stage").focus();
      if (!drive.scenario) await chooseScenario(state.overview.drives[0]);
    } else draw();
  }

  async function begin() {
    const saved = $("saved");
    state.overview = saved ? JSON.parse(saved.textContent) : await ask("/api/overview");
    state.saved = state.overview.saved || null;
    document.body.classList.toggle("still", !live());
    buildExplore();
    buildDrive();
    $("tab-explore").onclick = () => show("explore");
    $("tab-drive").onclick = () => show("drive");
    let waiting = null;
    window.addEventListener("resize", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => ($("explore").hidden ? drive.watchers.forEach(drawWatcher) : draw()), 150);
    });
    await openSequence(0);
    document.body.dataset.ready = "true";
  }
  begin().catch((error) => complain(error.message));
})();
