// One example at a time: a key answers, and the next one is there.

import { cap, classOf, numberIn, roughly } from "./choices.js";
import { count, counted, dialog, h, percent, toast } from "./dom.js";
import { doing, inUnit } from "./figures.js";
import { ahead, imageOf, isLoaded, large } from "./example.js";
import { address, call, link } from "./server.js";

const AHEAD = 5; // examples that a browser has open
const FEW = 2; // when so many are left, more are asked for
const PAUSE = 3000; // ms between looks for questions while there are none
const LONGEST = 600; // seconds; who was away longer was not thinking

export class LabelView {
  constructor(page) {
    this.page = page;
    this.queue = [];
    this.busy = false;
    this.suggesting = false;
    this.picked = new Set(); // classes chosen so far, where several can be right
    this.none = false; // whether Enter was pressed once with no class chosen
  }

  /** Build the view; the questions come at once if there are any. */
  open(main) {
    this.stage = h("div", { class: "stage", "aria-live": "polite" });
    this.buttons = h("div", { class: "answers" });
    this.offered = null;
    this.hint = h("p", { class: "hint", hidden: true });
    this.meter = h("p", { class: "meter" });
    this.banner = h("a", { class: "advice", href: "#progress", hidden: true });
    main.replaceChildren(
      h("section", { class: "label", "aria-label": "Label" }, this.banner, this.stage, this.hint, this.buttons, this.tools()),
    );
    this.next();
  }

  /** Show what comes next, and ask for more while it is looked at; who has nothing waits for that. */
  async next() {
    const filling = this.queue.length <= FEW && this.refill();
    if (!this.current) await filling;
    this.show();
    await filling;
    if (this.shown !== this.current && !this.busy) this.show(); // somebody else has it by now
  }

  close() {
    this.stage = null;
  }

  tools() {
    const tool = (key, words, act) =>
      h("button", { type: "button", class: "tool", onclick: () => this.acted(act) }, cap(key), h("span", {}, words));
    return h(
      "div",
      { class: "tools" },
      tool("⌫", "Take back", () => this.undo()),
      tool("Space", "Skip", () => this.skip()),
      tool(".", "Suggestion", () => this.suggest()),
      tool("?", "Keys", () => this.explain()),
      this.meter,
    );
  }

  /** Do what a click asks for, and give the focus back to the page, where keys answer. */
  acted(act) {
    document.activeElement?.blur();
    return act();
  }

  /** A key that no text field had. True if it meant something here. */
  key(event) {
    const { spec } = this.page;
    const acts = {
      Backspace: () => this.undo(),
      " ": () => this.skip(),
      ".": () => this.suggest(),
      "?": () => this.explain(),
      Enter: () => spec.kind === "several" && this.done(),
    };
    const chosen = spec.kind !== "number" && classOf(spec, event.key);
    const act = acts[event.key] ?? (chosen && (() => this.choose(chosen)));
    if (!act) return false;
    act();
    return true;
  }

  /** Ask the server for questions until enough are here; one call at a time. */
  refill() {
    this.filling ??= this.fill().finally(() => (this.filling = null));
    return this.filling;
  }

  async fill() {
    const have = this.queue.map(({ key }) => key);
    try {
      this.take(await call(address("/api/questions", { person: this.page.person, n: AHEAD, have })));
    } catch (error) {
      this.page.failed(error);
    }
  }

  /** Take what the server has for this person: new questions, and which of those here are still theirs to answer. */
  take({ questions, open }) {
    if (open) this.queue = this.queue.filter(({ key }) => open.includes(key));
    const here = new Set([...this.queue, ...this.page.outbox.kept.values()].map(({ key }) => key));
    this.queue.push(...questions.filter(({ key }) => !here.has(key)));
    this.queue.forEach(ahead);
  }

  get current() {
    return this.queue[0];
  }

  show() {
    if (!this.stage) return;
    clearTimeout(this.look);
    this.busy = false;
    this.picked.clear();
    this.none = false;
    this.hint.hidden = true;
    this.shown = this.current;
    this.stage.replaceChildren(this.current ? large(this.current) : this.nothing());
    this.stage.scrollTop = 0; // a text begins at its beginning, however far the last one was read
    scrollTo(0, 0);
    this.offer(this.current ? this.page.spec : null);
    this.restore(this.current?.undone);
    this.watch(this.current);
    this.tell();
    if (this.current && this.suggesting) this.hinted();
    if (!this.current) this.look = setTimeout(() => this.stage && !this.current && this.next(), PAUSE);
  }

  /** Begin the time of an answer when the example can be seen: a picture is not answered before. */
  async watch(question) {
    const image = question && imageOf(question);
    this.seen = !image || isLoaded(image);
    this.since = performance.now();
    this.stage.dataset.key = (this.seen && question?.key) || "";
    this.stage.dataset.name = question?.name ?? "";
    if (this.seen) return;
    await image.decode().catch(() => {});
    if (!isLoaded(image)) await new Promise((done) => setTimeout(done, PAUSE)); // the server may have been away
    if (!this.stage || question !== this.current || this.seen) return;
    if (!isLoaded(image)) {
      question.loaded = null;
      ahead(question);
      this.stage.replaceChildren(large(question));
    }
    this.watch(question);
  }

  /** What was chosen or typed so far, as `restore` takes it. */
  draft() {
    return this.page.spec.kind === "number" ? this.buttons.querySelector("input")?.value : [...this.picked];
  }

  /** Show an answer that was taken back or begun, to be changed or given. */
  restore(answer) {
    if (answer === null || answer === undefined) return;
    if (Array.isArray(answer)) answer.forEach((name) => this.choose(name));
    else if (this.page.spec.kind === "number") this.buttons.querySelector("input").value = String(answer);
    else this.buttons.querySelector(`[data-class="${CSS.escape(answer)}"]`)?.classList.add("given");
  }

  /** The buttons or the field for answers; buttons that are there stay, as building them costs more than the example. */
  offer(spec) {
    if (spec && spec === this.offered && spec.kind !== "number") return this.reset();
    this.offered = spec;
    return this.buttons.replaceChildren(...(spec ? this.inputs() : []));
  }

  reset() {
    for (const button of this.buttons.querySelectorAll("[data-class]")) {
      button.classList.remove("given");
      if (this.page.spec.kind === "several") button.setAttribute("aria-pressed", "false");
    }
  }

  nothing() {
    const kept = this.page.outbox.kept.size;
    if (!link.there) return h("p", { class: "empty" }, `The server is away. ${counted(kept, "answer")} kept here, and sent when it is back.`);
    const figures = this.page.figures;
    if (!figures || !figures.indexed) return h("p", { class: "empty" }, "Looking for the first questions …");
    const left = "What is left is open with somebody else, or was skipped. It comes here when they leave it.";
    if (figures.left) return h("p", { class: "empty" }, left);
    return h(
      "div",
      { class: "empty" },
      h("p", {}, "Nothing is left to ask. Everything has an answer."),
      h("p", {}, h("a", { href: "#review" }, "Look at answers again"), ", or write the labels to a file: ", h("code", {}, "jostle label export labels.csv")),
    );
  }

  inputs() {
    const { kind, classes } = this.page.spec;
    if (kind === "number") return [this.form()];
    const button = ({ name, keys }) =>
      h(
        "button",
        {
          type: "button",
          class: keys[0] === name.toLowerCase() ? "class bare" : "class",
          "data-class": name,
          "aria-pressed": kind === "several" && "false",
          onclick: () => this.acted(() => this.choose(name)),
        },
        keys.length && keys[0] !== name.toLowerCase() ? cap(keys[0]) : null,
        h("span", {}, name),
      );
    const done = h("button", { type: "button", class: "done", onclick: () => this.acted(() => this.done()) }, cap("Enter"), h("span", {}, "Done"));
    return [...classes.map(button), ...(kind === "several" ? [done] : [])];
  }

  form() {
    const input = h("input", { name: "number", inputmode: "decimal", autocomplete: "off", "aria-label": this.page.spec.name, placeholder: this.page.spec.name });
    const submit = (event) => {
      event.preventDefault();
      const value = numberIn(input);
      if (value !== null) this.answer(value);
    };
    input.addEventListener("keydown", (event) => event.key === "Escape" && input.blur());
    queueMicrotask(() => input.focus({ preventScroll: true }));
    return h("form", { class: "number", onsubmit: submit }, input, h("button", { class: "done" }, cap("Enter"), h("span", {}, "Save")));
  }

  /** One class: the answer, or a part of it where several can be right. */
  choose(name) {
    if (this.page.spec.kind === "one") return this.answer(name);
    this.none = false;
    if (this.picked.has(name)) this.picked.delete(name);
    else this.picked.add(name);
    for (const button of this.buttons.querySelectorAll("[data-class]"))
      button.setAttribute("aria-pressed", this.picked.has(button.dataset.class));
    return null;
  }

  /** Give the classes chosen; none of them has to be said twice, as Enter is easily pressed. */
  done() {
    if (this.picked.size || this.none) return this.answer([...this.picked]);
    this.none = Boolean(this.current);
    if (this.none) toast("Nothing is chosen: Enter again stores “none of them”.");
    return null;
  }

  /** Give an answer; the page goes on when it is on the server's disk, or kept here. */
  async answer(answer) {
    const question = this.current;
    if (!question || this.busy) return;
    if (!this.seen) {
      const broken = imageOf(question)?.complete;
      toast(broken ? "This picture cannot be shown: Space skips it." : "Wait for the picture.", "bad");
      return;
    }
    this.busy = true;
    this.buttons.querySelector(`[data-class="${CSS.escape(String(answer))}"]`)?.classList.add("given");
    const seconds = Math.min((performance.now() - this.since) / 1000, LONGEST);
    const entry = { person: this.page.person, key: question.key, answer, seconds };
    await this.page.outbox.give(entry);
    this.queue = this.queue.filter((each) => each !== question);
    this.next();
  }

  async skip() {
    const question = this.current;
    if (!question || this.busy) return;
    this.busy = true;
    try {
      await call("/api/skip", { person: this.page.person, key: question.key });
      this.queue = this.queue.filter((each) => each !== question);
    } catch (error) {
      this.page.failed(error);
      this.queue.push(this.queue.shift()); // unsent, so it comes again
    }
    this.next();
  }

  async undo() {
    if (this.busy) return;
    this.busy = true;
    try {
      await this.filling; // what is open now is not known to a call that began before
      if (this.page.outbox.kept.size) await this.page.outbox.send();
      const { question, answer } = await call("/api/undo", { person: this.page.person });
      if (question) {
        if (this.current) this.current.undone = this.draft();
        question.undone = answer;
        ahead(question);
        this.queue = [question, ...this.queue.filter(({ key }) => key !== question.key)];
        toast("Taken back.");
        this.show();
      } else toast("There is nothing of yours to take back.");
    } catch (error) {
      this.page.failed(error);
    }
    this.busy = false;
  }

  suggest() {
    this.suggesting = !this.suggesting;
    this.hint.hidden = true;
    if (this.suggesting) this.hinted();
  }

  /** Show what the model takes the example for. */
  async hinted() {
    const question = this.current;
    try {
      const { answer, confidence } = await call(`/api/suggestion/${encodeURIComponent(question.key)}`);
      if (question !== this.current || !this.suggesting) return;
      const sure = confidence === null ? "" : ` (${percent(confidence, 0)})`;
      this.hint.textContent = answer === null ? "The model knows nothing yet." : `The model says ${roughly(answer)}${sure}.`;
      this.hint.hidden = false;
    } catch (error) {
      this.page.failed(error);
    }
  }

  explain() {
    const line = (keys, words) => h("div", {}, h("dt", {}, keys.map(cap)), h("dd", {}, words));
    const { kind, classes } = this.page.spec;
    const own = kind === "number" ? [line(["Enter"], "save the number")] : classes.map(({ name, keys }) => line(keys, name));
    return dialog(
      h("h2", {}, "Keys"),
      h(
        "dl",
        { class: "keys" },
        own,
        kind === "several" && line(["Enter"], "done with this one"),
        line(["⌫"], "take the last answer back"),
        line(["Space"], "skip this one"),
        line(["."], "show or hide the model's suggestion"),
        line(["?"], "these keys"),
      ),
      h("p", { class: "soft" }, "While a text field has the focus, keys write into it; Escape leaves it."),
      h("form", { method: "dialog" }, h("button", { class: "done", autofocus: true }, "Close")),
    );
  }

  /** Bring the line of figures and the advice up to date. */
  tell() {
    if (!this.stage) return;
    const { figures, outbox } = this.page;
    if (!figures) return;
    const { accuracy, advice, status } = figures;
    const of = figures.indexed ? ` of ${count(figures.examples)}` : ""; // known once everything has been read
    const parts = [`${counted(figures.answered + outbox.arrivals.length, "answer")}${of}`];
    if (accuracy.estimate !== null) parts.push(`${accuracy.measure} ${inUnit(accuracy)(accuracy.estimate)}`);
    if (status.doing) parts.push(doing(status));
    this.meter.textContent = parts.join(" · ");
    this.banner.hidden = !advice.stop;
    this.banner.textContent = advice.stop ? advice.headline : "";
  }
}
