/* Colours, and what the cells are called. */

export const INK = "#22262b";
export const SOFT = "#6b7078";
export const LINE = "#dedad1";
export const GRID = "#f0ede6";
export const EDITED = "#b7791f";
export const EDITED_FILL = "#fdf4e1";
export const CHANGED = "#1f7a6d"; // page.css has it too
export const UNCHANGED = "#c9c6be";
export const FREE_RUNNING = "#f6f2e9";

const CELLS = {
  gatel0rd: { name: "GateL0RD", color: "#c0392b" },
  lstm: { name: "LSTM", color: "#2f6fa7" },
  gru: { name: "GRU", color: "#6f9a3e" },
  elman: { name: "Elman RNN", color: "#8569b0" },
};

export const colorOf = (model) => CELLS[model.cell]?.color || "#4d5661";

export const cellName = (model) => CELLS[model.cell]?.name || model.cell;

/* A colour mixed with white; a share of 1 is the colour itself. */
export function tint(color, share) {
  const parts = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return `rgb(${parts.map((part) => Math.round(255 - (255 - part) * share)).join(",")})`;
}
