// Many examples that the model takes for one class: select what is wrong, say what it is, confirm the rest.

import { h } from "./dom.js";
import { address, call } from "./server.js";
import { Tiles } from "./tiles.js";

const ROWS = 4; // of tiles that are shown at a time
const TILE = 170; // pixels of a tile and its gap
const FEWEST = 24;
const MOST = 120;
const ORDERS = { surest: "Surest first", doubtful: "Least certain first" };

export class GridView {
  constructor(page) {
    this.page = page;
    this.order = "surest";
  }

  open(main) {
    const suggested = ({ suggestion }) => (this.page.spec.kind === "several" ? suggestion.answer : this.chosen);
    const again = () => this.pick(this.chosen);
    this.tiles = new Tiles(this.page, { suggested, finished: again, taken_back: again });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Class" });
    this.orders = h("div", { class: "chips", role: "group", "aria-label": "Order" });
    main.replaceChildren(
      h(
        "section",
        { class: "wide gridview", "aria-label": "Grid" },
        h("h1", {}, "What the model takes for one class"),
        h("p", { class: "soft" }, "Select what is wrong and press its class, then confirm the rest. Answers count like any other, but never for the audit."),
        h("div", { class: "picks" }, this.chips, this.orders),
        this.tiles.board,
        this.tiles.bar,
      ),
    );
    if (this.page.spec.kind === "number") return this.tiles.show([], "Numbers have no classes to go through.");
    return this.pick(this.chosen ?? this.page.spec.classes[0].name);
  }

  key(event) {
    return this.tiles.key(event);
  }

  /** Show one class; until its tiles are there, those of the last one take no click. */
  async pick(name, order = this.order) {
    Object.assign(this, { chosen: name, order });
    const asked = (this.asked = Symbol(name));
    this.tiles.busy(true);
    const chip = (pressed, words, onclick) => h("button", { type: "button", "aria-pressed": String(pressed), onclick }, words);
    this.chips.replaceChildren(...this.page.spec.classes.map((each) => chip(each.name === name, each.name, () => this.pick(each.name))));
    this.orders.replaceChildren(...Object.entries(ORDERS).map(([each, words]) => chip(each === order, words, () => this.pick(name, each))));
    try {
      const { examples } = await call(address("/api/grid", { class: name, n: this.fitting(), order }));
      if (asked === this.asked) this.tiles.show(examples, this.none());
    } catch (error) {
      if (asked === this.asked) this.tiles.show([]);
      this.page.failed(error);
    }
    if (asked === this.asked) this.tiles.busy(false);
  }

  none() {
    return this.page.figures?.round ? `The model takes nothing unanswered for “${this.chosen}”.` : "No model yet: answer some examples first.";
  }

  /** How many tiles fill a few rows of this window. */
  fitting() {
    const columns = Math.max(1, Math.floor(this.tiles.board.clientWidth / TILE));
    return Math.min(MOST, Math.max(FEWEST, ROWS * columns));
  }
}
