// What can be answered, and by which keys.

import { h } from "./dom.js";

const shown = (key) => (key.length === 1 ? key.toUpperCase() : key);
/** A key cap. */
export const cap = (key) => h("kbd", {}, shown(key));

/** The class that a key stands for, if any. */
export const classOf = (spec, key) => spec.classes.find((each) => each.keys.includes(key.toLowerCase()))?.name;

/** An answer in words. */
export function inWords(answer) {
  if (answer === null || answer === undefined) return "–";
  if (Array.isArray(answer)) return answer.length ? answer.join(", ") : "none of them";
  return String(answer);
}

/** What a model says, in words: a number with no more digits than it can know. */
export const roughly = (answer) =>
  typeof answer === "number" ? answer.toLocaleString("en", { maximumSignificantDigits: 4 }) : inWords(answer);

/** A menu to choose another answer from, or a field for a number; `chosen(answer)` is called with it. */
export function corrector(spec, answer, label, chosen) {
  if (spec.kind === "number") return field(answer, label, chosen);
  if (spec.kind === "several") return boxes(spec, answer, label, chosen);
  const options = spec.classes.map(({ name }) => h("option", { value: name, selected: name === answer }, name));
  const none = answer === null ? [h("option", { value: "", selected: true, disabled: true }, "choose")] : [];
  const menu = h("select", { "aria-label": label, onchange: () => chosen(menu.value) }, none, options);
  return menu;
}

function field(answer, label, chosen) {
  const input = h("input", { "aria-label": label, inputmode: "decimal", autocomplete: "off", value: answer ?? "" });
  input.addEventListener("change", () => {
    const value = number(input.value);
    input.toggleAttribute("aria-invalid", value === null);
    if (value !== null) chosen(value);
  });
  return input;
}

function boxes(spec, answer, label, chosen) {
  const box = ({ name }) => h("label", {}, h("input", { type: "checkbox", value: name, checked: answer?.includes(name) }), name);
  const inside = h("div", { class: "boxes" }, spec.classes.map(box));
  const picked = () => [...inside.querySelectorAll(":checked")].map((each) => each.value);
  const done = h("button", { type: "button", class: "quiet", onclick: () => chosen(picked()) }, "Save");
  return h("details", { class: "several", "aria-label": label }, h("summary", {}, inWords(answer)), inside, done);
}

/** The number that a text means, with a point or a comma; null where it is none. */
export function number(text) {
  const plain = text.trim().replace(/[\s'_]/g, "").replace(/,(?=\d*$)/, ".");
  return plain !== "" && Number.isFinite(Number(plain)) ? Number(plain) : null;
}
