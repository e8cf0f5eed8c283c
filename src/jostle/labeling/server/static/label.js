// One example at a time: a key answers, and the next one is there.

import { cap } from "./choices.js";
import { CopyStrip } from "./copies.js";
import { count, counted, h, toast } from "./dom.js";
import { doing, inBounds } from "./figures.js";
import { ahead, imageOf, isLoaded, large } from "./example.js";
import { isMany } from "./keys.js";
import { flag, note, remark } from "./remarks.js";
import { inputs } from "./replies.js";
import { address, call, link } from "./server.js";
import { suggest } from "./suggestions.js";
import { lights } from "./viewer.js";

const AHEAD = 5; // examples that a browser has open
const FEW = 2; // when so many are left, more are asked for
const PAUSE = 3000; // ms between looks for questions while there are none
const DOUBLE_CLICK = 400; // ms within which the second click of a double click does not answer the next example
const LONGEST = 600; // seconds; who was away longer was not thinking

export class LabelView {
  constructor(page) {
    this.page = page;
    this.queue = [];
    this.busy = this.suggesting = false;
    this.picked = new Set(); // classes chosen so far, where several can be right
    this.none = false; // whether Enter was pressed once with no class chosen
    this.strip = new CopyStrip(page, (parted) => this.queue.splice(1, 0, ...parted)); // they come next
    this.zoom = () => this.current?.viewer?.toggle();
    this.split = () => this.strip.split(this.current?.key);
  }

  /** Build the view; the questions come at once if there are any. */
  open(main) {
    this.stage = h("div", { class: "stage", role: "region", tabindex: 0, "aria-label": "Example", "aria-live": "polite" });
    this.buttons = h("div", { class: "answers", role: "group", "aria-label": "Answers", tabindex: -1 });
    this.offered = null;
    this.hint = h("p", { class: "hint", hidden: true });
    this.panel = h("div", { class: "panel" });
    this.meter = h("p", { class: "meter" });
    this.banner = h("a", { class: "advice", href: "#progress", hidden: true });
    main.replaceChildren(
      h(
        "section",
        { class: "label", "aria-label": "Label" },
        h("h1", { class: "unseen" }, "Label"),
        this.banner,
        this.stage,
        h("div", { class: "reply" }, this.strip.element, this.hint, this.panel, this.buttons, (this.toolbar = this.tools())),
      ),
    );
    this.page.guide.open(this);
    this.next();
  }

  /** Show what comes next, and ask for more while it is looked at; who has nothing waits for that. */
  async next() {
    const filling = this.queue.length <= FEW && this.refill();
    if (!this.current && filling) {
      this.show(); // that there is nothing yet
      await filling;
    }
    this.show();
    await filling;
    if (this.shown !== this.current && !this.busy) this.show(); // somebody else has it by now
  }

  close() {
    this.stage = null;
  }

  tools() {
    const tool = (action, words, more = "") => {
      const searching = isMany(this.page.spec); // letters are typed then
      const key = this.page.keys.of(this.page.spec, `action ${action}`).find((each) => !searching || !/^\p{L}$/u.test(each));
      return h("button", { type: "button", class: `tool ${more}`, "data-action": action, onclick: (event) => this.acted(event, () => this[action]()) }, key ? cap(key) : null, h("span", {}, words));
    };
    return h(
      "div",
      { class: "tools", "data-kind": this.current?.content.kind },
      tool("undo", "Take back"),
      tool("skip", "Skip"),
      tool("unsure", "Unsure"),
      tool("note", "Note"),
      tool("flag", "Flag"),
      tool("zoom", "Zoom", "for-image"),
      tool("light", "Light", "for-image"),
      tool("suggest", "Suggestion"),
      tool("guide", "Guide", "for-guide"),
      tool("keys", "Keys"),
      this.meter,
    );
  }

  /** Do what a button says. A button pressed by a key keeps the focus; after a click keys go to the example. */
  acted(event, act) {
    if (event.detail) this.stage.focus({ preventScroll: true });
    if (event.detail > 1 && performance.now() - this.since < DOUBLE_CLICK) return null; // nobody has looked at this one
    return act();
  }

  /** A key that no text field had. True if it meant something here. */
  key(event) {
    const { spec, keys } = this.page;
    if (this.current?.viewer?.key(event.key) || this.scroll(event.key)) return true;
    if (event.key === "Enter" && spec.kind === "several") return this.done() ?? true;
    const { class: chosen, action } = keys.meaning(spec, event.key);
    if (chosen === undefined && action === undefined) return false;
    if (action === undefined) this.choose(chosen);
    else this[action]();
    return true;
  }

  /** Scroll a long text, wherever the focus is. */
  scroll(key) {
    const { scrollHeight, clientHeight } = this.stage;
    const by = { ArrowDown: 60, ArrowUp: -60, PageDown: 0.9 * clientHeight, PageUp: -0.9 * clientHeight, End: scrollHeight, Home: -scrollHeight }[key];
    if (by === undefined || scrollHeight <= clientHeight) return false;
    this.stage.scrollBy({ top: by });
    return true;
  }

  guide() {
    return this.page.guide.toggle();
  }

  /** Open or close the sliders for brightness and contrast. */
  light() {
    if (!this.panel.children.length && this.current?.viewer) {
      const fetched = () => {
        for (const question of this.queue) question.loaded = null;
        this.queue.forEach(ahead);
        if (this.current) this.display();
      };
      this.panel.replaceChildren(lights(() => this.current?.viewer?.light(), fetched));
    } else this.panel.replaceChildren();
  }

  /** Put the example on the stage. */
  display() {
    this.stage.replaceChildren(large(this.current));
    this.watch(this.current);
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
    this.toolbar.dataset.kind = this.current?.content.kind;
    this.marks();
    this.stage.replaceChildren(this.current ? large(this.current) : this.nothing());
    this.stage.scrollTop = 0; // a text begins at its beginning, however far the last one was read
    scrollTo(0, 0);
    this.offer(this.current ? this.page.spec : null);
    this.restore(this.current?.undone);
    this.watch(this.current);
    this.strip.show(this.current);
    this.tell();
    if (this.current && this.suggesting) suggest(this);
    if (!this.current) this.look = setTimeout(() => this.stage && !this.current && this.next(), PAUSE);
  }

  /** Begin the time of an answer when the example can be seen: a picture is not answered before. */
  async watch(question) {
    const image = question && imageOf(question);
    this.seen = !image || isLoaded(image);
    this.since = performance.now();
    const failed = !this.seen && image.complete;
    this.stage.dataset.state = this.seen ? "shown" : failed ? "broken" : "loading";
    this.stage.setAttribute("aria-busy", String(!this.seen && !failed));
    if (this.seen) this.buttons.removeAttribute("aria-disabled");
    else this.buttons.setAttribute("aria-disabled", "true");
    this.stage.dataset.key = (this.seen && question?.key) || "";
    this.stage.dataset.name = question?.name ?? "";
    if (this.seen) return;
    await image.decode().catch(() => {});
    if (!isLoaded(image)) {
      if (image.complete) this.stage.dataset.state = "broken";
      await new Promise((done) => setTimeout(done, PAUSE)); // the server may have been away
    }
    if (!this.stage || question !== this.current || this.seen || imageOf(question) !== image) return;
    if (!isLoaded(image)) question.loaded = null;
    if (question.loaded) this.watch(question);
    else this.display();
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
    this.clearSearch = null;
    this.buttons.classList.toggle("many", Boolean(spec && spec.kind !== "number" && isMany(spec)));
    return this.buttons.replaceChildren(...(spec ? inputs(this) : []));
  }

  reset() {
    this.clearSearch?.();
    for (const button of this.buttons.querySelectorAll("[data-class]")) {
      button.classList.remove("given");
      if (this.page.spec.kind === "several") button.setAttribute("aria-pressed", "false");
    }
  }

  nothing() {
    const kept = this.page.outbox.kept.size;
    const say = (head, ...words) => h("div", { class: "empty" }, h("b", {}, head), h("p", {}, words));
    if (!link.there) return say("The server is away", `${counted(kept, "answer")} kept in this browser; they are sent when it is back.`);
    const figures = this.page.figures;
    if (!figures || !figures.indexed) return say("Looking for the first questions …", "Large folders take a moment.");
    if (figures.left) return say("Nothing to ask you now", "What is left is open with somebody else, or was skipped. It comes here when they leave it.");
    const look = h("a", { href: "#review" }, "Look at answers again");
    const write = h("code", {}, "jostle label export labels.csv");
    return say("Everything has an answer", "Nothing is left to ask. ", look, ", or write the labels to a file: ", write);
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
    if (this.clearSearch && [answer].flat().map((name) => this.page.keys.use(name)).includes(true)) this.offered = null;
    const entry = { person: this.page.person, key: question.key, answer, seconds };
    await this.page.outbox.give(entry);
    this.queue = this.queue.filter((each) => each !== question);
    this.next();
  }

  skip() {
    return this.pass((question) => call("/api/skip", { person: this.page.person, key: question.key }).then(() => true));
  }

  /** Leave an example to others; it comes again when nothing else is left. */
  unsure() {
    return this.pass((question) => remark(this.page, question, "unsure"));
  }

  /** Go on without an answer, once `send(question)` has stored that. */
  async pass(send) {
    const question = this.current;
    if (!question || this.busy) return;
    this.busy = true;
    try {
      if (!(await send(question))) this.queue.push(this.queue[0]); // unsent, so it comes again
      this.queue.shift();
    } catch (error) {
      this.page.failed(error);
      this.queue.push(this.queue.shift());
    }
    this.next();
  }

  note() {
    return this.current && note(this.page, this.current).then(() => this.marks());
  }

  flag() {
    return this.current && flag(this.page, this.current).then(() => this.marks());
  }

  /** Show on the buttons whether the example has a note or a flag of this person. */
  marks() {
    const having = { note: this.current?.note, flag: this.current?.flagged };
    for (const [action, has] of Object.entries(having))
      this.toolbar.querySelector(`[data-action=${action}]`).setAttribute("aria-pressed", String(Boolean(has)));
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
    if (this.suggesting) suggest(this);
  }

  /** Show the keys; a change shows at once. */
  keys() {
    return this.page.keys.explain(this.page.spec, () => {
      if (!this.stage) return;
      const before = this.draft();
      this.offered = null;
      this.picked.clear();
      this.offer(this.current ? this.page.spec : null);
      this.restore(before);
      const tools = this.tools();
      this.toolbar.replaceWith(tools);
      this.toolbar = tools;
    });
  }

  /** Bring the line of figures and the advice up to date. */
  tell() {
    if (!this.stage) return;
    const { figures, outbox } = this.page;
    if (!figures) return;
    const { accuracy, advice, status } = figures;
    const of = figures.indexed ? ` of ${count(figures.examples)}` : ""; // known once everything has been read
    const parts = [`${counted(figures.answered + outbox.arrivals.length, "answer")}${of}`];
    if (accuracy.estimate !== null) parts.push(inBounds(accuracy));
    if (status.doing) parts.push(doing(status));
    this.meter.textContent = parts.join(" · ");
    this.banner.hidden = !advice.stop;
    this.banner.textContent = advice.stop ? advice.headline : "";
  }
}
