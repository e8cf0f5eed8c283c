// Examples side by side: select some, answer them at once, take that back at once.

import { cap, inWords, numberIn, roughly } from "./choices.js";
import { count, counted, h, percent, toast } from "./dom.js";
import { copyBadge } from "./copies.js";
import { closeUp, isLoaded, small } from "./example.js";
import { newId } from "./outbox.js";
import { call } from "./server.js";

const LONGEST = 600; // seconds; who was away longer was not looking

export class Tiles {
  /** `suggested(example)` is the answer that "the others are right" gives, or null; `finished()` is called when that
   *  was given, and `taken_back()` when answers were taken back to examples that are no longer shown. */
  constructor(page, { suggested = () => null, finished = () => {}, taken_back = () => {} } = {}) {
    Object.assign(this, { page, suggested, finished, taken_back });
    this.bulks = []; // [id, keys] of what was given here, the last one at the end
    this.board = h("div", { class: "tiles", role: "group", "aria-label": "Examples" });
    this.bar = h("div", { class: "bulk", role: "toolbar", "aria-label": "Answer what is selected" });
    this.show([]);
  }

  /** Show examples in place of the last ones. */
  show(examples, empty = "") {
    this.since = performance.now();
    this.all = [];
    this.selected = new Set();
    this.last = null; // the tile that a range begins at
    this.board.replaceChildren(...(examples.length || !empty ? [] : [h("p", { class: "empty" }, empty)]));
    this.add(examples);
  }

  /** Show more examples after those that are there. */
  add(examples) {
    const made = examples.map((example) => ({ example, key: example.key, given: undefined, answer: example.answer ?? this.suggested(example) }));
    for (const tile of made) this.board.append((tile.element = this.draw(tile)));
    this.all.push(...made);
    this.footer();
  }

  busy(is) {
    this.board.inert = this.bar.inert = is;
    this.board.setAttribute("aria-busy", String(is));
  }

  draw(tile) {
    const { example } = tile;
    const face = h(
      "button",
      { type: "button", class: "face", "aria-pressed": "false", "aria-label": example.name, onclick: (event) => this.clicked(tile, event), ondblclick: () => closeUp(example) },
      small(example),
    );
    const sure = example.suggestion?.confidence ?? null;
    tile.words = h("span", { class: "says" });
    const element = h(
      "div",
      { class: "tile", "data-key": example.key },
      face,
      h("div", { class: "under" }, tile.words, sure === null ? null : h("span", { class: "sure" }, percent(sure, 0)), copyBadge(this.page, example), this.extra(tile)),
    );
    this.say(tile);
    return element;
  }

  /** What else a tile has: nothing here. */
  extra() {
    return null;
  }

  clicked(tile, event) {
    const from = this.all.indexOf(this.last);
    const to = this.all.indexOf(tile);
    const on = !this.selected.has(tile);
    const range = event.shiftKey && from >= 0 ? this.all.slice(Math.min(from, to), Math.max(from, to) + 1) : [tile];
    this.select(range, event.shiftKey || on);
    this.last = tile;
    if (event.detail) event.currentTarget.blur(); // after a click keys answer; who tabs keeps the focus
  }

  select(tiles, on) {
    for (const tile of tiles) {
      if (on) this.selected.add(tile);
      else this.selected.delete(tile);
      tile.element.querySelector(".face").setAttribute("aria-pressed", String(on));
    }
    this.footer();
  }

  get open() {
    return this.all.filter((tile) => tile.given === undefined);
  }

  /** A key that no text field had. True if it meant something here. */
  key(event) {
    const acts = {
      Backspace: () => this.undo(),
      Escape: () => this.select([...this.selected], false),
      Enter: () => this.rest(),
      z: () => this.last && closeUp(this.last.example), // as a double click
    };
    const chosen = this.page.spec.kind !== "number" && this.selected.size && this.page.keys.meaning(this.page.spec, event.key).class;
    const act = acts[event.key] ?? (chosen && (() => this.choose(chosen)));
    if (!act || this.board.inert) return false;
    act();
    return true;
  }

  /** A class for what is selected; where several can be right, it is added to each, or taken from all that have it. */
  choose(name) {
    const tiles = [...this.selected];
    if (this.page.spec.kind === "one") return this.give(tiles, () => name);
    const all = tiles.every(({ answer }) => answer?.includes(name));
    return this.give(tiles, ({ answer }) => (all ? answer.filter((each) => each !== name) : [...new Set([...(answer ?? []), name])]), true);
  }

  /** Tiles that the suggestion is right for, as nobody answered or selected them. */
  get others() {
    return this.open.filter((tile) => this.suggested(tile.example) !== null && !this.selected.has(tile));
  }

  /** Give the suggested answer to the others; what is selected stays. */
  async rest() {
    const tiles = this.others;
    if (tiles.length && !(await this.give(tiles, ({ answer }) => answer))) return;
    if (!this.open.length) this.finished();
  }

  /** Answer tiles at once; true when all of them are on disk or kept here. Places stay, so that nothing moves. */
  async give(tiles, answer, keep = false) {
    const seen = tiles.filter(({ element }) => isSeen(element));
    if (seen.length < tiles.length) toast(`${counted(tiles.length - seen.length, "picture")} not shown: not answered.`, "bad");
    if (!seen.length) return false;
    const seconds = Math.min((performance.now() - this.since) / 1000, LONGEST) / seen.length;
    this.since = performance.now();
    const bulk = newId();
    this.bulks.push([bulk, seen.map((tile) => [tile, tile.given, tile.answer])]);
    for (const tile of seen) this.mark(tile, (tile.answer = answer(tile)));
    if (!keep) this.select(seen, false);
    this.footer();
    await this.page.outbox.giveAll(seen.map((tile) => ({ person: this.page.person, key: tile.key, answer: tile.given, seconds, bulk })));
    return seen.length === tiles.length;
  }

  mark(tile, given) {
    const { example, element } = tile;
    tile.given = given;
    element.classList.toggle("answered", given !== undefined);
    element.classList.toggle("changed", given !== undefined && JSON.stringify(given) !== JSON.stringify(this.suggested(example) ?? given));
    this.say(tile);
  }

  /** Write the answer of a tile below it, or else what the model takes it for. */
  say({ example, answer, words }) {
    const guess = example.suggestion?.answer ?? null;
    words.textContent = answer !== null ? inWords(answer) : guess !== null ? `${roughly(guess)}?` : "";
    words.classList.toggle("guess", answer === null);
  }

  /** Take the last answers given here back, all at once. */
  async undo() {
    const last = this.bulks.pop();
    if (!last) return toast("There is nothing to take back here.");
    const [bulk, tiles] = last;
    this.busy(true);
    try {
      await this.page.outbox.sent(bulk);
      const { keys } = await call("/api/bulk/undo", { person: this.page.person, bulk });
      toast(`${counted(keys.length, "answer")} taken back.`);
      const here = tiles.filter(([tile]) => this.all.includes(tile));
      for (const [tile, given, answer] of here) {
        tile.answer = answer;
        this.mark(tile, given);
      }
      if (here.length < tiles.length) this.taken_back();
    } catch (error) {
      this.bulks.push(last);
      this.page.failed(error);
    }
    this.busy(false);
    return this.footer();
  }

  /** The bar: what is selected, and what can be done with it. */
  footer() {
    const { spec } = this.page;
    const chosen = this.selected.size;
    const open = this.open.length;
    const suggested = this.others.length;
    const tool = (act, disabled, ...words) => h("button", { type: "button", class: "quiet", disabled, onclick: (event) => this.acted(event, act) }, ...words);
    const all = suggested === this.all.length;
    const rest = suggested === 1 ? (all ? "It is right" : "The other one is right too") : all ? `All ${count(suggested)} are right` : `The other ${count(suggested)} are right too`;
    const given = this.all.length - open;
    this.bar.hidden = !this.all.length && !this.bulks.length;
    this.bar.replaceChildren(
      h("span", { class: chosen || given ? "soft" : "soft idle", role: "status" }, chosen ? `${count(chosen)} selected` : given ? `${counted(given, "answer")} here` : "Click to select, Shift for a range"),
      h("div", { tabindex: 0, class: "classes" }, spec.kind === "number" ? this.number(chosen) : spec.classes.map((each) => this.button(each, chosen))),
      h(
        "div",
        { class: "acts" },
        chosen ? tool(() => this.select([...this.selected], false), false, "Clear") : tool(() => this.select(this.open, true), !open, "Select all"),
        tool(() => this.undo(), !this.bulks.length, cap("⌫"), " Take back"),
        suggested ? h("button", { type: "button", class: "done", onclick: (event) => this.acted(event, () => this.rest()) }, cap("Enter"), rest) : null,
        !suggested && !open && this.all.length ? h("button", { type: "button", class: "done", onclick: (event) => this.acted(event, () => this.finished()) }, cap("Enter"), "More") : null,
      ),
    );
  }

  button({ name }, chosen) {
    const [key] = this.page.keys.of(this.page.spec, `class ${name}`);
    const give = (event) => this.acted(event, () => this.choose(name));
    return h("button", { type: "button", class: "class", "data-class": name, disabled: !chosen, onclick: give }, key && key !== name.toLowerCase() ? cap(key) : null, h("span", {}, name));
  }

  number(chosen) {
    const input = h("input", { "aria-label": this.page.spec.name, inputmode: "decimal", autocomplete: "off", disabled: !chosen });
    const submit = (event) => {
      event.preventDefault();
      const value = numberIn(input);
      if (value !== null) this.give([...this.selected], () => value);
    };
    return h("form", { class: "number", onsubmit: submit }, input, h("button", { class: "quiet", disabled: !chosen }, "Save"));
  }

  acted(event, act) {
    if (event.detail) event.currentTarget.blur();
    return act();
  }
}

/** Whether somebody can have seen what a tile shows: a picture that is not loaded, or is broken, nobody has. */
function isSeen(tile) {
  const image = tile.querySelector("img");
  return image ? isLoaded(image) : !tile.querySelector(".broken");
}
