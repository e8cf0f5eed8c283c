// Find: a map of all examples, search and filters; what is found is answered at once.

import { inWords, roughly } from "./choices.js";
import { count, counted, h, percent } from "./dom.js";
import { colorOf, Dots, shadeOf } from "./dots.js";
import { small } from "./example.js";
import { address, bytes, call } from "./server.js";
import { Tiles } from "./tiles.js";

const AT_ONCE = 60; // examples that are shown at a time
const TYPING = 300; // ms after the last key before a search begins
const RESTING = 180; // ms that the mouse rests on a dot before its example is shown
const OFTEN = 5000; // ms between looks for a newer map or new colors
const CIRCLE = 45; // pixels of the region that Shift and a click choose
const CORNERS = 200; // of a region at most
const COLORS = { prediction: "Prediction", doubt: "Doubt", answer: "Answer" };
const ORDERS = { name: "Name", doubtful: "Least certain first", surest: "Surest first" };
const REMARKS = { unsure: "unsure", note: "with a note", flag: "flagged" };
const NOTHING = { words: "", meaning: "", like: null, region: null, predicted: null, answered: null, answer: null, person: null, remark: null, copies: false, order: "name" };

class FoundTiles extends Tiles {
  extra({ example }) {
    const like = () => this.like(example);
    return h("button", { type: "button", class: "like", title: "More like this", "aria-label": `More like ${example.name}`, onclick: like }, "≈");
  }
}

export class FindView {
  constructor(page) {
    this.page = page;
    this.search = { ...NOTHING };
    this.by = "prediction";
  }

  open(main) {
    this.tiles = new FoundTiles(this.page, {
      suggested: ({ suggestion }) => (this.search.predicted && this.page.spec.kind === "one" ? this.search.predicted : this.search.predicted ? suggestion.answer : null),
      finished: () => this.find(),
      taken_back: () => this.find(),
    });
    this.tiles.like = (example) => this.find({ meaning: "", like: example.key, likeName: example.name, order: "name" });
    this.canvas = h("canvas", { class: "dots", tabindex: "0", role: "img", "aria-label": "Map of all examples: similar ones lie side by side" });
    this.dots = new Dots(this.canvas);
    this.card = h("div", { class: "card", hidden: true });
    this.legend = h("div", { class: "legend" });
    this.status = h("p", { class: "soft", role: "status" });
    this.filters = h("div", { class: "filters" });
    this.found = h("p", { class: "soft found", role: "status" });
    this.more = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.load(this.tiles.all.length) }, "Show more");
    main.replaceChildren(
      h(
        "section",
        { class: "find", "aria-label": "Find" },
        h("h1", {}, "Find examples"),
        h("div", { class: "looking" }, this.box(), this.filters),
        h("div", { class: "mapped" }, this.tools(), h("div", { class: "plane" }, this.canvas, this.card), this.legend, this.status),
        h("div", { class: "results" }, this.found, this.tiles.board, this.more),
        this.tiles.bar,
      ),
    );
    this.listen();
    this.draw_filters();
    this.sized = new ResizeObserver(() => this.dots.resize());
    this.sized.observe(this.canvas);
    this.watch();
    if (this.asked) this.find();
    else this.tiles.show([], "Search, filter, or draw around dots: what is found comes here. What you look at here no longer measures in the audit.");
  }

  close() {
    this.sized?.disconnect();
    clearTimeout(this.looking);
    this.canvas = null;
  }

  key(event) {
    return this.tiles.key(event);
  }

  // search and filters

  box() {
    const input = h("input", { type: "search", "aria-label": "Search", placeholder: "Search words in names, texts and notes", value: this.search.words || this.search.meaning });
    const begin = () => {
      const meant = this.meant.getAttribute("aria-pressed") === "true";
      return this.find(meant ? { words: "", meaning: input.value, like: null } : { words: input.value, meaning: "" });
    };
    const turn = () => {
      this.meant.setAttribute("aria-pressed", String(this.meant.getAttribute("aria-pressed") !== "true"));
      if (input.value) begin();
    };
    this.meant = h("button", { type: "button", class: "quiet", "aria-pressed": String(Boolean(this.search.meaning)), hidden: true, title: "Find texts that mean something similar", onclick: turn }, "By meaning");
    let typing;
    input.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(begin, TYPING);
    });
    return h("div", { class: "search" }, input, this.meant);
  }

  draw_filters() {
    const { spec, figures } = this.page;
    const { answered, predicted, answer, person, remark, copies, order, like, likeName, region } = this.search;
    const chip = (pressed, words, change) => h("button", { type: "button", "aria-pressed": String(pressed), onclick: () => this.find(change) }, words);
    const group = (label, ...chips) => h("div", { class: "chips", role: "group", "aria-label": label }, ...chips);
    const menu = (label, chosen, names, change) =>
      h(
        "details",
        { class: "menu", name: "filter" },
        h("summary", {}, label, chosen === null ? null : h("b", {}, `: ${chosen}`)),
        group(label, chip(chosen === null, "any", change(null)), ...names.map((name) => chip(name === chosen, name, change(name)))),
      );
    const classes = (spec.classes ?? []).map(({ name }) => name);
    const clear = (words, change) => h("button", { type: "button", class: "clear", "aria-label": `No longer ${words}`, onclick: () => this.find(change) }, `${words} ×`);
    this.filters.replaceChildren(
      group("Answered or not", chip(answered === null, "All", { answered: null, answer: null, person: null }), chip(answered === false, "Unanswered", { answered: false, answer: null, person: null }), chip(answered === true, "Answered", { answered: true })),
      spec.kind === "number" ? "" : menu("Model says", predicted, classes, (name) => ({ predicted: name })),
      spec.kind === "number" ? "" : menu("Answer", answer, classes, (name) => ({ answer: name, answered: name === null ? answered : true })),
      menu("Person", person, Object.keys(figures?.people ?? {}), (name) => ({ person: name, answered: name === null ? answered : true })),
      menu("Remark", remark === null ? null : REMARKS[remark], Object.values(REMARKS), (words) => ({ remark: Object.keys(REMARKS).find((kind) => REMARKS[kind] === words) ?? null })),
      group("Near-copies", chip(copies, "Near-copies", { copies: !copies })),
      spec.kind === "number" ? "" : menu("Order", order === "name" ? null : ORDERS[order], Object.values(ORDERS).slice(1), (words) => ({ order: Object.keys(ORDERS).find((name) => ORDERS[name] === words) ?? "name" })),
      like ? clear(`like ${likeName}`, { like: null }) : "",
      region ? clear("in the region", { region: null }) : "",
    );
  }

  /** Search with some conditions changed. */
  async find(change = {}) {
    Object.assign(this.search, change);
    this.asked = JSON.stringify(this.search) !== JSON.stringify(NOTHING);
    this.dots.region = this.search.region;
    this.dots.draw();
    this.canvas.closest(".find").classList.toggle("asked", this.asked);
    this.draw_filters();
    await this.load(0);
  }

  /** Show what was found, from a place on. */
  async load(start) {
    const asking = (this.asking = Symbol("search"));
    const { likeName, ...search } = this.search;
    if (!start) this.tiles.busy(true);
    try {
      const { examples, total } = await call("/api/find", { ...search, start, n: AT_ONCE });
      if (asking !== this.asking) return;
      if (start) this.tiles.add(examples);
      else this.tiles.show(examples, "Nothing fits.");
      this.found.textContent = total ? `${counted(total, "example")}${total > this.tiles.all.length ? `, ${count(this.tiles.all.length)} shown` : ""}` : "";
      this.more.hidden = this.tiles.all.length >= total;
    } catch (error) {
      this.page.failed(error);
    }
    if (asking === this.asking) this.tiles.busy(false);
  }

  // map

  tools() {
    const by = (name) => h("button", { type: "button", "aria-pressed": String(name === this.by), "data-by": name, onclick: () => this.recolor(name) }, COLORS[name]);
    const names = this.page.spec.kind === "number" ? ["answer"] : Object.keys(COLORS);
    if (!names.includes(this.by)) this.by = names[0];
    this.lasso = h("button", { type: "button", class: "quiet", "aria-pressed": "false", title: "Draw around dots (or hold Shift)", onclick: () => this.lasso.setAttribute("aria-pressed", String(!this.lassoing)) }, "Lasso");
    const whole = h("button", { type: "button", class: "quiet", onclick: () => this.dots.fit() }, "Whole map");
    return h("div", { class: "maptools" }, h("div", { class: "chips", role: "group", "aria-label": "Color by" }, names.map(by)), this.lasso, whole);
  }

  get lassoing() {
    return this.lasso.getAttribute("aria-pressed") === "true";
  }

  /** Look for a map, then now and then for a newer one, and for new colors. */
  async watch() {
    clearTimeout(this.looking);
    if (!this.canvas) return;
    try {
      const { count: n, stage, version, meaning } = await call("/api/map");
      if (n && version !== this.dots.version) {
        this.dots.place(new Float32Array(await bytes("/api/map/positions")));
        this.dots.version = version;
      }
      if (!this.canvas) return;
      this.meant.hidden = !meaning;
      this.status.textContent = !n ? "The map comes once examples are encoded." : stage === "pca" ? "A first map; a better one is being made." : `${counted(n, "example")}. Drag to move, wheel to zoom, Shift and drag to draw around dots.`;
      if (n) await this.recolor(this.by);
    } catch (error) {
      this.page.failed(error);
    }
    if (this.canvas) this.looking = setTimeout(() => this.watch(), OFTEN);
  }

  async recolor(by) {
    this.by = by;
    for (const button of this.canvas.closest(".mapped").querySelectorAll("[data-by]")) button.setAttribute("aria-pressed", String(button.dataset.by === by));
    const found = new Uint8Array(await bytes(address("/api/map/colors", { by })));
    if (!this.canvas || by !== this.by) return;
    const classes = this.page.spec.classes ?? [];
    const meaning = by === "doubt" ? Array.from({ length: 255 }, (_, i) => shadeOf(i / 254)) : classes.length ? classes.map((_, i) => colorOf(i)) : [colorOf(1)];
    this.dots.color(found, meaning);
    const swatch = (css, words) => h("span", {}, style(h("i", {}), css), words);
    const seen = new Set(found);
    const named = classes.map(({ name }, i) => [i, name]).filter(([i]) => seen.has(i));
    this.legend.replaceChildren(
      ...(by === "doubt" ? [swatch(shadeOf(0), "sure"), swatch(shadeOf(0.5), ""), swatch(shadeOf(1), "in doubt")] : named.map(([i, name]) => swatch(colorOf(i), name))),
      ...(seen.has(255) ? [swatch("#9aa0a8", by === "answer" ? "no answer" : "no prediction")] : []),
    );
  }

  listen() {
    const { canvas } = this;
    const at = (event) => [event.offsetX, event.offsetY];
    const fingers = new Map();
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.dots.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)), ...at(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, at(event));
      this.pressed = { from: at(event), moved: false, shift: event.shiftKey, line: event.shiftKey || this.lassoing ? [this.dots.where(...at(event))] : null };
      this.hide();
    });
    canvas.addEventListener("pointermove", (event) => {
      const here = at(event);
      const before = fingers.get(event.pointerId);
      if (!before) return this.hover(event);
      fingers.set(event.pointerId, here);
      if (fingers.size > 1) return this.pinch(fingers, event.pointerId, before, here);
      this.pressed.moved ||= Math.hypot(here[0] - this.pressed.from[0], here[1] - this.pressed.from[1]) > 4;
      if (this.pressed.line) {
        this.pressed.line.push(this.dots.where(...here));
        this.dots.region = this.pressed.line;
        this.dots.draw();
      } else this.dots.pan(here[0] - before[0], here[1] - before[1]);
      return null;
    });
    const up = (event) => {
      const { pressed } = this;
      fingers.delete(event.pointerId);
      if (!pressed || fingers.size) return;
      this.pressed = null;
      if (pressed.line && pressed.moved) this.choose(pressed.line);
      else if (pressed.shift || (pressed.line && !pressed.moved)) this.choose(this.circle(...pressed.from));
      else if (!pressed.moved) this.show(...pressed.from);
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.hide());
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[event.key];
      const factor = { "+": 1.3, "=": 1.3, "-": 1 / 1.3 }[event.key];
      if (step) this.dots.pan(...step);
      if (factor) this.dots.zoom(factor, canvas.clientWidth / 2, canvas.clientHeight / 2);
      if (step || factor) event.preventDefault();
    });
  }

  pinch(fingers, id, before, here) {
    this.pressed.moved = true;
    this.pressed.line = null;
    const [other] = [...fingers].filter(([each]) => each !== id).map(([, place]) => place);
    const far = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]) || 1;
    this.dots.zoom(far(here) / far(before), (here[0] + other[0]) / 2, (here[1] + other[1]) / 2);
    this.dots.pan((here[0] - before[0]) / 2, (here[1] - before[1]) / 2);
    return null;
  }

  /** A circle around a place, as a region. */
  circle(x, y) {
    return Array.from({ length: 32 }, (_, i) => this.dots.where(x + CIRCLE * Math.cos((i * Math.PI) / 16), y + CIRCLE * Math.sin((i * Math.PI) / 16)));
  }

  /** Look at a region as tiles. */
  choose(line) {
    const step = Math.ceil(line.length / CORNERS);
    const region = line.filter((_, i) => i % step === 0);
    this.lasso.setAttribute("aria-pressed", "false");
    if (region.length >= 3) this.find({ region, like: null });
  }

  hover(event) {
    clearTimeout(this.resting);
    const dot = this.dots.at(event.offsetX, event.offsetY);
    this.canvas.style.cursor = dot === null ? "" : "pointer";
    if (dot === null) return this.hide();
    if (dot !== this.under) this.resting = setTimeout(() => this.show(event.offsetX, event.offsetY), RESTING);
    return null;
  }

  hide() {
    clearTimeout(this.resting);
    this.under = null;
    this.card.hidden = true;
  }

  /** Show the example of the dot at a place. */
  async show(x, y) {
    const dot = this.dots.at(x, y);
    if (dot === null) return this.hide();
    this.under = dot;
    try {
      const example = await call(address("/api/map/example", { place: dot, count: this.dots.count }));
      if (this.under !== dot || !this.canvas) return null;
      const { answer, confidence } = example.suggestion;
      const said = example.answer === null ? answer !== null && `model: ${roughly(answer)}${confidence === null ? "" : ` ${percent(confidence, 0)}`}` : inWords(example.answer);
      this.card.replaceChildren(small(example), h("b", {}, example.name), said && h("span", {}, said));
      this.card.hidden = false;
      const { clientWidth: width, clientHeight: height } = this.canvas;
      this.card.style.left = `${Math.max(4, Math.min(x + 16, width - this.card.offsetWidth - 4))}px`;
      this.card.style.top = `${Math.max(4, Math.min(y + 16, height - this.card.offsetHeight - 4))}px`;
    } catch (error) {
      this.page.failed(error);
    }
    return null;
  }
}

/** Give an element a color; the server's rules allow no style attributes. */
function style(element, css) {
  element.style.background = css;
  return element;
}
