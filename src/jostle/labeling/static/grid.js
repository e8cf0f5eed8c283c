// Many examples that the model takes for one class: confirm or correct each with a click.

import { corrector } from "./choices.js";
import { count, counted, h, percent, toast } from "./dom.js";
import { isLoaded, small } from "./example.js";
import { address, call } from "./server.js";

const AT_ONCE = 24;

export class GridView {
  constructor(page) {
    this.page = page;
  }

  open(main) {
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Class" });
    this.tiles = h("div", { class: "tiles" });
    this.foot = h("div", { class: "foot" });
    main.replaceChildren(
      h(
        "section",
        { class: "wide", "aria-label": "Grid" },
        h("h1", {}, "What the model takes for one class"),
        h("p", { class: "soft" }, "Click what is right; choose another class for what is not. Answers count like any other, but never for the audit."),
        this.chips,
        this.tiles,
        this.foot,
      ),
    );
    if (this.page.spec.kind === "number") return this.tiles.replaceChildren(h("p", { class: "empty" }, "Numbers have no classes to go through."));
    return this.pick(this.chosen ?? this.page.spec.classes[0].name);
  }

  key() {
    return false;
  }

  /** Show one class; until its tiles are there, those of the last one take no click. */
  async pick(name) {
    this.chosen = name;
    this.busy(true);
    const chip = (each) =>
      h("button", { type: "button", "aria-pressed": String(each.name === name), onclick: () => this.pick(each.name) }, each.name);
    this.chips.replaceChildren(...this.page.spec.classes.map(chip));
    this.foot.replaceChildren();
    try {
      const { examples } = await call(address("/api/grid", { class: name, n: AT_ONCE }));
      if (name !== this.chosen) return;
      this.show(examples);
    } catch (error) {
      if (name === this.chosen) this.tiles.replaceChildren();
      this.page.failed(error);
    }
    if (name === this.chosen) this.busy(false);
  }

  busy(is) {
    this.tiles.inert = is;
    this.tiles.setAttribute("aria-busy", String(is));
  }

  show(examples) {
    this.since = performance.now();
    this.open_ones = new Map(examples.map((each) => [each.key, each]));
    this.shown = examples.length;
    if (!examples.length) {
      const words = this.page.figures?.round ? `The model takes nothing unanswered for “${this.chosen}”.` : "No model yet: answer some examples first.";
      return this.tiles.replaceChildren(h("p", { class: "empty" }, words));
    }
    this.tiles.replaceChildren(...examples.map((each) => this.tile(each)));
    return this.footer();
  }

  tile(example) {
    const name = this.chosen;
    const { answer, confidence } = example.suggestion;
    const sure = h("span", { class: "sure" }, confidence === null ? "" : percent(confidence, 0));
    const whole = this.page.spec.kind === "several" ? answer : name;
    const right = h(
      "button",
      { type: "button", class: "right", "aria-label": `${example.name}: ${name} is right`, onclick: () => this.give(example, whole) },
      small(example),
    );
    const menu = corrector(this.page.spec, whole, `${example.name}: another answer`, (answer) => this.give(example, answer));
    return h("div", { class: "tile", "data-key": example.key }, right, h("div", { class: "under" }, menu, sure));
  }

  /** Answer one tile; its place stays, so that nothing moves under the mouse. */
  async give(example, answer) {
    const tile = this.tiles.querySelector(`[data-key="${CSS.escape(example.key)}"]`);
    if (!isSeen(tile)) return toast("This picture is not shown yet, or cannot be: nothing was answered.", "bad");
    const again = !this.open_ones.has(example.key);
    if (again && tile.dataset.answer === JSON.stringify(answer)) return;
    const seconds = (performance.now() - this.since) / 1000 / Math.max(this.shown, 1);
    this.open_ones.delete(example.key);
    tile.dataset.answer = JSON.stringify(answer);
    tile.classList.add("answered");
    tile.classList.toggle("changed", JSON.stringify(answer) !== JSON.stringify(example.suggestion.answer));
    this.footer();
    if (again) return this.page.corrected(example.key, answer);
    return this.page.outbox.give({ person: this.page.person, key: example.key, answer, seconds });
  }

  async rest() {
    const tile = ({ key }) => this.tiles.querySelector(`[data-key="${CSS.escape(key)}"]`);
    const left = [...this.open_ones.values()].filter((each) => isSeen(tile(each)));
    if (left.length < this.open_ones.size) toast(`${counted(this.open_ones.size - left.length, "picture")} not shown: not answered.`, "bad");
    await Promise.all(left.map((each) => this.give(each, this.page.spec.kind === "several" ? each.suggestion.answer : this.chosen)));
    await this.pick(this.chosen);
  }

  footer() {
    const left = this.open_ones.size;
    const all = h("button", { type: "button", class: "done", onclick: () => this.rest() }, left ? `The other ${count(left)} are right too` : "More");
    this.foot.replaceChildren(h("span", { class: "soft" }, `${counted(this.shown - left, "answer")} here`), all);
  }
}

/** Whether somebody can have seen what a tile shows: a picture that is not loaded, or is broken, nobody has. */
function isSeen(tile) {
  const image = tile.querySelector("img");
  return image ? isLoaded(image) : !tile.querySelector(".broken");
}
