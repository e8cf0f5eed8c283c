// Another answer for an example: a menu of classes, boxes where several can be right, or a field for a number.

import { inWords, numberIn } from "./choices.js";
import { h } from "./dom.js";

const FILTERED = 12; // classes; of more, the menu has a field that finds one

/** A control for another answer; `chosen(answer)` is called with it. */
export function corrector(spec, answer, label, chosen) {
  if (spec.kind === "number") return field(answer, label, chosen);
  if (spec.kind === "several") return boxes(spec, answer, label, chosen);
  return menu(spec.classes.map(({ name }) => name), answer, "Another answer", label, chosen);
}

/** A menu of names; `words` stand in it while none is chosen. */
export function menu(names, chosen, words, label, choose) {
  const said = h("span", {}, chosen ?? words);
  const list = h("div", { class: "chips", role: "group", "aria-label": label });
  const box = h("details", { class: "menu answer", name: "answer" }, h("summary", {}, h("span", { class: "unseen" }, `${label}: `), said), list);
  const pick = (name) => {
    chosen = said.textContent = name;
    close();
    choose(name);
  };
  const close = () => {
    box.open = false;
    box.querySelector("summary").focus();
  };
  const chips = (typed = "") => names.filter((name) => name.toLowerCase().includes(typed.trim().toLowerCase())).map((name) => h("button", { type: "button", "aria-pressed": String(name === chosen), onclick: () => pick(name) }, name));
  const find = names.length > FILTERED && h("input", { type: "search", "aria-label": "Find a class", placeholder: "Find a class", oninput: () => list.replaceChildren(find, ...chips(find.value)) });
  box.addEventListener("toggle", () => {
    list.replaceChildren(...(box.open ? [...(find ? [find] : []), ...chips()] : []));
    if (box.open && find) find.focus();
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.open) return;
    event.preventDefault(); // a dialog around it stays open
    close();
  });
  return box;
}

function field(answer, label, chosen) {
  const input = h("input", { "aria-label": label, inputmode: "decimal", autocomplete: "off", value: answer ?? "" });
  input.addEventListener("change", () => {
    const value = numberIn(input);
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
