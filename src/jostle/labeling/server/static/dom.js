// Elements made in code. Text is set as text, never parsed: a file may be named <script>.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners (`onclick`) and children; what is null or false is left out. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for drawings. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const byId = (id) => document.getElementById(id);

const whole = new Intl.NumberFormat("en");
/** 12,345 */
export const count = (n) => whole.format(n);
/** `1 answer`, `2 answers` */
export const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
/** 0.934 -> 93.4 % */
export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;

let fading;
/** Say something in passing. */
export function toast(words, kind = "") {
  const place = byId("toast");
  place.textContent = words;
  place.className = `toast shown ${kind}`;
  clearTimeout(fading);
  fading = setTimeout(() => place.classList.remove("shown"), 4000 + 40 * words.length);
}

/** Open the page's dialog with something in it; the promise ends when it is closed. */
export function dialog(...content) {
  const box = byId("dialog");
  box.replaceChildren(...content.filter(Boolean));
  box.showModal();
  return new Promise((closed) => box.addEventListener("close", () => closed(box.returnValue), { once: true }));
}
