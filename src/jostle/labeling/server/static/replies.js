// What a question is answered with: a button for each class, or a field for a number.

import { cap, numberIn } from "./choices.js";
import { h } from "./dom.js";
import { isMany } from "./keys.js";

/** The buttons or the field with which a question is answered. */
export function inputs(view) {
  const { kind, classes } = view.page.spec;
  if (kind === "number") return [form(view)];
  const button = ({ name }) => {
    const [key] = view.page.keys.of(view.page.spec, `class ${name}`);
    const bare = key === name.toLowerCase();
    return h(
      "button",
      {
        type: "button",
        class: bare ? "class bare" : "class",
        "data-class": name,
        "aria-pressed": kind === "several" && "false",
        onclick: (event) => view.acted(event, () => view.choose(name)),
      },
      key && !bare ? cap(key) : null,
      h("span", {}, name),
    );
  };
  const done = h("button", { type: "button", class: "done", onclick: (event) => view.acted(event, () => view.done()) }, cap("Enter"), h("span", {}, "Done"));
  const ending = kind === "several" ? [done] : [];
  if (!isMany(view.page.spec)) return [...classes.map(button), ...ending];
  const used = view.page.keys.used(classes);
  const rest = classes.filter(({ name }) => !used.includes(name));
  return [...picker(view), ...[...used.map((name) => ({ name })), ...rest].map(button), ...ending];
}

/** A field that finds a class by some letters of its name; Enter chooses the first that is found. */
function picker(view) {
  const input = h("input", { type: "search", class: "typeahead", autocomplete: "off", "aria-label": "Find a class", placeholder: "Type some letters of a class; Enter chooses it" });
  const said = h("span", { class: "unseen", role: "status" });
  let place = 0;
  const buttons = () => [...view.buttons.querySelectorAll("[data-class]")];
  const found = () => buttons().filter((each) => !each.hidden);
  const draw = (words) => {
    const matches = rank(buttons().map((each) => each.dataset.class), words);
    for (const each of buttons()) each.hidden = !matches.includes(each.dataset.class);
    found().forEach((each) => (each.style.order = words ? matches.indexOf(each.dataset.class) + 1 : ""));
    mark(words ? matches : []);
  };
  const mark = (matches) => {
    const chosen = matches[Math.min(place, matches.length - 1)];
    for (const each of buttons()) each.classList.toggle("first", each.dataset.class === chosen);
    said.textContent = input.value ? (chosen ? `${matches.length} found, Enter chooses ${chosen}` : "No class is found") : "";
  };
  const clear = () => {
    input.value = "";
    place = 0;
    draw("");
  };
  view.clearSearch = clear;
  input.addEventListener("input", () => {
    place = 0;
    draw(input.value);
  });
  input.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const matches = input.value ? rank(buttons().map((each) => each.dataset.class), input.value) : [];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape" && !input.value) view.stage.focus({ preventScroll: true });
    else if (event.key === "Escape") clear();
    else if (event.key === "Enter" && input.value) {
      const chosen = matches[Math.min(place, matches.length - 1)];
      clear();
      if (chosen) view.choose(chosen);
    } else if (step && input.value) {
      place = Math.min(Math.max(place + step, 0), matches.length - 1);
      mark(matches);
    } else if (input.value || event.repeat || !meant(view, event.key) || !view.key(event)) return;
    event.preventDefault();
  });
  if (matchMedia("(hover: hover)").matches) queueMicrotask(() => input.focus({ preventScroll: true }));
  return [input, said];
}

/** Whether a key in the empty field is no letter to search with. */
const meant = ({ page }, key) => page.keys.passes(key) && (!/^\p{L}$/u.test(key) || page.keys.meaning(page.spec, key).class !== undefined);

const plain = (words) => words.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

/** The names that have some letters: first those that begin with them, then those with a word that does, then the others. */
export function rank(names, words) {
  const wanted = plain(words.trim());
  const score = (name) => {
    const at = plain(name).indexOf(wanted);
    return at < 0 ? 3 : at === 0 ? 0 : plain(name).split(/[^\p{L}\p{N}]+/u).some((word) => word.startsWith(wanted)) ? 1 : 2;
  };
  const scored = names.map((name) => [score(name), name]).filter(([each]) => each < 3);
  return scored.sort(([a], [b]) => a - b).map(([, name]) => name);
}

function form(view) {
  const input = h("input", { name: "number", inputmode: "decimal", autocomplete: "off", "aria-label": view.page.spec.name, placeholder: view.page.spec.name });
  const submit = (event) => {
    event.preventDefault();
    const value = numberIn(input);
    if (value !== null) view.answer(value);
  };
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") view.stage.focus({ preventScroll: true });
    else if (!["Home", "End"].includes(event.key) && view.scroll(event.key)) event.preventDefault();
  });
  queueMicrotask(() => input.focus({ preventScroll: true }));
  return h("form", { class: "number", onsubmit: submit }, input, h("button", { class: "done" }, cap("Enter"), h("span", {}, "Save")));
}
