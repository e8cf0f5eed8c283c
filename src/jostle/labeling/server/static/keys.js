// Keys: what each one means, keys of one's own, and whether they are on. Kept in this browser, by project.

import { cap } from "./choices.js";
import { dialog, h } from "./dom.js";

/** Actions of the label view: the key to begin with, and what it does. A class that has the same key goes first. */
const ACTIONS = {
  undo: ["Backspace", "Take the last answer back"],
  skip: [" ", "Skip this one"],
  unsure: ["u", "Unsure: ask others, and me again at the end"],
  note: [",", "Write a note on this one"],
  flag: ["!", "Flag this one: something is wrong with it"],
  split: ["s", "Split near-copies: ask each on its own"],
  zoom: ["z", "Enlarge the picture, or show the whole"],
  light: ["*", "Brightness and contrast"],
  suggest: [".", "Show or hide suggestions of models"],
  guide: ["/", "Show or hide the guide, where there is one"],
  keys: ["?", "Show these keys"],
};
const SCROLLING = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home", "End"];
const MANY = 12; // classes; of more, digits choose those used last, and letters search
const SLOTS = 9; // digits
const FIELDS = "input, textarea, select, [contenteditable]";
const MODIFIERS = ["Shift", "Control", "Alt", "AltGraph", "Meta", "CapsLock", "Dead", "Unidentified"];

/** Whether there are so many classes that they are searched. */
export const isMany = ({ classes = [] }) => classes.length > MANY;

/** Give a key that was pressed to a view, unless a field, a button or a dialog has it. */
export function pressed(event, keys, view) {
  const busy = event.ctrlKey || event.metaKey || event.altKey || event.isComposing;
  const pressing = event.target.closest?.("button, a, summary") && [" ", "Enter"].includes(event.key);
  if (busy || pressing || event.target.closest?.(FIELDS) || document.querySelector("dialog[open]")) return;
  if ((event.repeat && !event.key.startsWith("Arrow") && !event.key.startsWith("Page")) || !keys.passes(event.key)) return;
  if (view?.key(event)) event.preventDefault();
}

export class Keys {
  constructor(project) {
    this.place = `jostle:${project}:keys`;
    this.on = true;
    this.own = {}; // "class cat" or "action skip" -> key
    this.recent = []; // names of classes used last, each at the place of its digit, and when
    try {
      Object.assign(this, JSON.parse(localStorage.getItem(this.place) ?? "{}"));
    } catch {
      // a forbidden or damaged storage: the keys to begin with
    }
  }

  save() {
    try {
      localStorage.setItem(this.place, JSON.stringify({ on: this.on, own: this.own, recent: this.recent }));
    } catch {
      // they hold until the page is closed
    }
  }

  /** Whether a view may be given this key: keys that scroll always, others unless they are switched off. */
  passes(key) {
    return this.on || SCROLLING.includes(key) || key === "Escape";
  }

  /** Every key that means something: key -> "class cat" or "action skip". */
  meanings({ classes = [] }) {
    const found = new Map(Object.entries(this.own).map(([what, key]) => [key, what]));
    const offer = (key, what) => what in this.own || found.has(key) || found.set(key, what);
    for (const { name, own } of classes) if (own) offer(own, `class ${name}`);
    if (isMany({ classes })) this.used(classes).forEach((name, place) => offer(String(place + 1), `class ${name}`));
    else for (const { name, keys } of classes) keys.forEach((key) => offer(key, `class ${name}`));
    for (const [name, [key]] of Object.entries(ACTIONS)) offer(key, `action ${name}`);
    return found;
  }

  /** The classes used last, in the order of their digits. */
  used(classes) {
    const there = new Set(classes.map(({ name }) => name));
    return this.recent.map(({ name }) => name).filter((name) => there.has(name));
  }

  /** Note that a class was used. It takes the place of the one that was not used for longest; all others stay. True if the places changed. */
  use(name) {
    const at = 1 + Math.max(0, ...this.recent.map((each) => each.at));
    const place = this.recent.findIndex((each) => each.name === name);
    const oldest = this.recent.reduce((best, each, i) => (each.at < this.recent[best].at ? i : best), 0);
    this.recent[place >= 0 ? place : this.recent.length < SLOTS ? this.recent.length : oldest] = { name, at };
    this.save();
    return place < 0;
  }

  /** The meaning of a key that was pressed: { class } or { action }, empty where it has none. */
  meaning(spec, pressed) {
    const found = this.meanings(spec).get(pressed.length === 1 ? pressed.toLowerCase() : pressed) ?? "";
    const [, kind, name] = found.match(/^(class|action) (.*)$/s) ?? [];
    return kind ? { [kind]: name } : {};
  }

  /** The keys of a class or an action, as "class cat" or "action skip"; none while keys are off. */
  of(spec, what) {
    return this.on ? [...this.meanings(spec)].filter(([, meant]) => meant === what).map(([key]) => key) : [];
  }

  /** Show all keys, to be changed or switched off; `changed()` is called after each change. */
  explain(spec, changed) {
    const list = h("dl", { class: "keys" });
    const draw = () => {
      const classes = spec.kind === "number" ? [] : spec.classes.map(({ name }) => [`class ${name}`, name]);
      const actions = Object.entries(ACTIONS).map(([name, [, words]]) => [`action ${name}`, words]);
      list.replaceChildren(...[...classes, ...actions].map(([what, words]) => this.line(spec, what, words, refresh)));
    };
    const refresh = () => {
      this.save();
      draw();
      changed();
    };
    const toggle = h("input", { type: "checkbox", checked: this.on, onchange: () => ((this.on = toggle.checked), refresh()) });
    const reset = h("button", { type: "button", class: "quiet", onclick: () => ((this.own = {}), refresh()) }, "Keys as they were");
    draw();
    return dialog(
      h("h2", {}, "Keys"),
      h("label", { class: "switch" }, toggle, "Use keys to answer"),
      list,
      spec.kind !== "one" ? h("p", { class: "soft" }, "Enter stores the answer.") : null,
      h("p", { class: "soft" }, "Arrows and Page Up or Down scroll; + and - enlarge a picture, arrows move it. In a text field keys write; Escape leaves it."),
      h("form", { method: "dialog", class: "foot" }, reset, h("button", { class: "done", autofocus: true }, "Close")),
    );
  }

  line(spec, what, words, refresh) {
    const keys = this.of(spec, what);
    const change = h("button", { type: "button", class: "tool", "aria-label": `Change the key for: ${words}` }, "Change");
    change.addEventListener("click", () => {
      change.textContent = "Press a key";
      change.addEventListener("blur", refresh, { once: true });
      change.addEventListener("keydown", (event) => this.take(event, what, refresh));
    });
    return h("div", {}, h("dt", {}, keys.length ? keys.map(cap) : "–"), h("dd", {}, words), this.on ? change : null);
  }

  /** Take the key that was pressed for a class or an action; whoever had it loses it. */
  take(event, what, refresh) {
    if (MODIFIERS.includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    if (["Escape", "Tab", "Enter", ...SCROLLING].includes(event.key)) return refresh();
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    this.own = Object.fromEntries(Object.entries(this.own).filter(([, other]) => other !== key));
    this.own[what] = key;
    refresh();
  }
}
