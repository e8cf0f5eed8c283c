// Near-copies: a group is one question. Its copies are shown small, and each is split off with a click.

import { cap } from "./choices.js";
import { count, counted, dialog, h, toast } from "./dom.js";
import { ahead, small } from "./example.js";
import { address, call } from "./server.js";

const SHOWN = 24; // copies of a group

export class CopyStrip {
  /** `parted(questions)` is called with the examples that are questions of their own from then on. */
  constructor(page, parted) {
    Object.assign(this, { page, parted });
    this.element = h("div", { class: "copies", role: "group", "aria-label": "Near-copies", hidden: true });
  }

  /** Show the copies of a question; one without any has no strip. */
  async show(question) {
    this.question = question;
    this.element.hidden = !question?.copies;
    if (this.element.hidden) return;
    this.draw([]);
    try {
      const { examples } = await call(address(`/api/copies/${encodeURIComponent(question.key)}`, { n: SHOWN }));
      if (question === this.question) this.draw(examples);
    } catch (error) {
      this.page.failed(error);
    }
  }

  draw(examples) {
    const { copies, key } = this.question;
    const [cue] = this.page.keys.of(this.page.spec, "action split");
    const copy = (each) => h("button", { type: "button", title: `Split ${each.name} off`, "aria-label": `Split ${each.name} off`, onclick: () => this.split(each.key) }, small(each));
    const more = copies - examples.length;
    this.element.replaceChildren(
      h("b", {}, alike(copies)),
      h("div", { class: "strip" }, examples.map(copy), examples.length && more > 0 ? h("span", { class: "soft" }, `and ${count(more)} more`) : null),
      h("button", { type: "button", class: "tool", title: "Ask each of them on its own", onclick: () => this.split(key) }, cue ? cap(cue) : null, h("span", {}, "Split all")),
    );
  }

  /** Split one copy off, or all of them by the key of the question. */
  async split(key) {
    const { question } = this;
    if (!question?.copies) return;
    try {
      const { questions, left } = await call("/api/split", { person: this.page.person, key });
      question.copies = left;
      toast(`${counted(questions.length, "example")} split off: asked on ${questions.length === 1 ? "its" : "their"} own.`);
      questions.forEach(ahead);
      this.parted(questions);
      if (question === this.question) await this.show(question);
    } catch (error) {
      this.page.failed(error);
    }
  }
}

const alike = (copies) => `${count(copies + 1)} alike`;

/** A badge for a tile: how many are alike; a click shows them. Null for an example without near-copies. */
export function copyBadge(page, example) {
  if (!example.copies) return null;
  const badge = h("button", { type: "button", class: "alike", "aria-label": `${example.name}: ${alike(example.copies)}` }, alike(example.copies));
  badge.addEventListener("click", () => {
    const strip = new CopyStrip(page, () => {
      badge.textContent = alike(example.copies);
      badge.hidden = !example.copies;
    });
    strip.show(example);
    const close = h("form", { method: "dialog", class: "foot reversed" }, h("button", { class: "done", autofocus: true }, "Close"));
    dialog(h("h2", {}, `Near-copies of ${example.name}`), h("p", { class: "soft" }, "They carry its answer. A click on one splits it off."), strip.element, close);
  });
  return badge;
}
