// What a question is answered with: a button for each class, or a field for a number.

import { cap, numberIn } from "./choices.js";
import { h } from "./dom.js";

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
  return [...classes.map(button), ...(kind === "several" ? [done] : [])];
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
