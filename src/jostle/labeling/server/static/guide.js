// The guide of a project: beside the question, at the first start of each person, and with the class at hand.

import { dialog, h, toast } from "./dom.js";
import { small } from "./example.js";
import { call } from "./server.js";

const CLOSED = "jostle:guide"; // where a browser keeps that the panel is closed
const WIDE = "(min-width: 62rem) and (min-height: 34.1rem)"; // windows with room for a panel, as in guide.css
const LINGER = 150; // ms that the card of a class waits for the mouse to reach it
const GAP = 8; // pixels between a class and its card
const SHOWN = 2; // examples in a card

export class Guide {
  constructor(page) {
    this.page = page;
    this.sections = [];
    addEventListener("focus", () => this.refresh()); // it may have been edited
  }

  /** Take part in the label view. */
  open(view) {
    this.view = view;
    this.panel = h("aside", { class: "guide", "aria-label": "Guide", tabindex: 0, hidden: true });
    this.card = h("div", { class: "card", id: "class-card", role: "tooltip", hidden: true });
    view.stage.parentElement.append(this.panel, this.card);
    this.watch(view.buttons);
    this.draw();
    this.refresh();
  }

  /** Read the guide again. */
  async refresh() {
    try {
      const { sections, problems, digest } = await call("/api/guide");
      const changed = digest !== this.digest;
      Object.assign(this, { sections, problems, digest });
      if (changed) this.draw();
      if (digest && this.view?.stage) this.greet();
    } catch (error) {
      this.page.failed(error);
    }
  }

  draw() {
    if (!this.panel) return;
    if (this.digest) document.body.dataset.guide = this.digest;
    else delete document.body.dataset.guide;
    const close = h("button", { type: "button", class: "tool", onclick: () => this.toggle() }, "Close");
    this.panel.replaceChildren(h("div", { class: "foot" }, h("h2", {}, "Guide"), close), ...this.content());
    this.panel.hidden = !this.digest || stored(CLOSED) === "yes";
    this.card.hidden = true;
  }

  content() {
    const notes = (this.problems ?? []).map((words) => h("p", { class: "problem" }, words));
    return [...notes, ...this.sections.map((each) => about(each))];
  }

  /** Show the guide to somebody who has not seen it yet; say when it has changed. */
  async greet() {
    const place = `jostle:${this.page.project}:guide:${this.page.person}`;
    const seen = stored(place);
    if (seen === this.digest || document.querySelector("dialog[open]")) return;
    store(place, this.digest);
    if (seen) toast("The guide has changed.");
    else await this.read("Begin");
  }

  /** Show all of it in a window of its own. */
  async read(word) {
    const close = h("button", { class: "done", autofocus: true }, word);
    const text = h("div", { class: "guide", role: "region", tabindex: 0, "aria-label": "Guide" }, ...this.content());
    await dialog(h("h2", {}, "Guide"), text, h("form", { method: "dialog", class: "foot reversed" }, close));
    this.view.since = performance.now(); // reading it is no part of an answer
  }

  /** Open or close it: beside the question where there is room, else over it. */
  toggle() {
    if (!this.digest) return toast("This project has no guide: give it one with --guide.");
    if (!matchMedia(WIDE).matches) return this.read("Close");
    this.panel.hidden = !this.panel.hidden;
    store(CLOSED, this.panel.hidden ? "yes" : "no");
    if (this.panel.contains(document.activeElement)) this.view.stage.focus({ preventScroll: true });
    return null;
  }

  /** Show the card of the class that the mouse or the focus is on, or that a search has found. */
  watch(buttons) {
    const over = (event) => event.pointerType === "mouse" && this.show(event.target.closest("[data-class]"));
    const away = () => {
      clearTimeout(this.leaving);
      this.leaving = setTimeout(() => this.hide(), LINGER);
    };
    const typed = (event) => event.target.matches(".typeahead") && this.show(buttons.querySelector(".first"));
    buttons.addEventListener("pointerover", over);
    buttons.addEventListener("pointerout", away);
    buttons.addEventListener("focusin", (event) => event.target.matches("[data-class]:focus-visible") && this.show(event.target));
    buttons.addEventListener("focusout", away);
    buttons.addEventListener("click", () => this.hide());
    for (const kind of ["input", "keyup"]) buttons.addEventListener(kind, typed);
    this.card.addEventListener("pointerenter", () => clearTimeout(this.leaving));
    this.card.addEventListener("pointerleave", away);
    buttons.addEventListener("keydown", (event) => event.key === "Escape" && this.hide());
  }

  show(button) {
    const section = button && this.sections.find(({ name }) => name === button.dataset.class);
    clearTimeout(this.leaving);
    if (!section) return this.hide();
    if (this.shown === button && !this.card.hidden) return null;
    this.hide();
    this.card.replaceChildren(about({ ...section, examples: section.examples.slice(0, SHOWN) }, "p"));
    this.card.hidden = false;
    this.shown = button;
    button.setAttribute("aria-describedby", this.card.id);
    return this.place(button.getBoundingClientRect());
  }

  /** Put the card above a class and the field that searches for it, or below the class where there is more room. */
  place({ left, top: edge, bottom, width }) {
    const { offsetWidth, style } = this.card;
    const top = Math.min(edge, this.view.buttons.querySelector(".typeahead")?.getBoundingClientRect().top ?? edge);
    const below = top < innerHeight - bottom;
    style.left = `${Math.min(Math.max(left + width / 2 - offsetWidth / 2, GAP), innerWidth - offsetWidth - GAP)}px`;
    style.top = below ? `${bottom + GAP}px` : "auto";
    style.bottom = below ? "auto" : `${innerHeight - top + GAP}px`;
    style.maxHeight = `${(below ? innerHeight - bottom : top) - 2 * GAP}px`;
  }

  hide() {
    this.card.hidden = true;
    this.shown?.removeAttribute("aria-describedby");
    this.shown = null;
  }
}

/** A section: the name of its class, what is said of it, and examples. */
function about({ name, nodes, examples }, heading = "h3") {
  const title = name ? h(heading, { class: "name" }, name) : null;
  const pictures = examples.length ? h("div", { class: "examples" }, examples.map(small)) : null;
  return h("section", {}, title, nodes.map(drawn), pictures);
}

/** A node of the guide as an element; texts are set as texts. */
function drawn(node) {
  if (typeof node === "string") return node;
  if (node.tag === "example") return h("span", { class: "examples" }, small(node.example));
  const link = node.tag === "a" ? { href: node.href, target: "_blank", rel: "noopener noreferrer" } : {};
  return h(node.tag, link, node.inside.map(drawn));
}

function stored(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function store(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // a forbidden storage: it is shown again next time
  }
}
