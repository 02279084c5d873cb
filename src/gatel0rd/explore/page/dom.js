/* Elements of the page: find them, make them, and show an error above everything. */

export const byId = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...inside) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...inside);
  return node;
}

export function showError(message) {
  byId("banner").firstElementChild.textContent = message;
  byId("banner").hidden = false;
}

export function hideError() {
  byId("banner").hidden = true;
}

/* Below this width the page is one column; page.css has the same number. */
export const isNarrow = () => window.matchMedia("(max-width: 820px)").matches;
