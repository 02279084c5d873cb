/* Numbers and words for people. */

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

const superscript = (power) => [...String(Number(power))].map((sign) => (sign === "-" ? "⁻" : SUPERSCRIPTS[sign])).join("");

/* As short as it fits into a field of numbers. */
export function formatValue(value) {
  if (value === null || value === undefined) return "";
  return value && Math.abs(value) < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(4)));
}

export function formatError(value) {
  if (value === null) return "–";
  const [digits, power] = value.toExponential(1).split("e");
  return value && (value < 1e-3 || value >= 1e4) ? `${digits}·10${superscript(power)}` : value.toPrecision(2);
}

export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

export const capitalize = (text) => text[0].toUpperCase() + text.slice(1);

/* Plotly reads titles as HTML. */
export const escapeHtml = (text) => text.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);
