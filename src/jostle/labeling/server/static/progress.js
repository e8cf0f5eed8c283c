// How it goes: what the audit says, the curve, who answered what, and whether to go on.

import { curve } from "./curve.js";
import { count, counted, dialog, h, percent } from "./dom.js";
import { capital, doing, inUnit } from "./figures.js";
import { menu } from "./picker.js";
import { call, local } from "./server.js";
import { suggester } from "./suggestions.js";

const OFTEN = 3000; // ms between looks
const LEFT =
  "“Of what is left here” counts the examples that were never picked. It comes from the random audit alone, " +
  "whose answers the model never learns from. Use it to decide whether to finish this data by the model.";
const NEW =
  "“On new data like this” counts hard examples too, which picks take out of what is left. " +
  "It adds held-out predictions of the answered examples. Use it to decide whether to take the model elsewhere.";
const BAND =
  "Bounds are confidence sequences by betting: they hold with 95 % probability for all models together, however often you look. " +
  "The bound for new data holds for one model alone. Figures change every five answers, so that nobody can tell which answers measure.";

export class ProgressView {
  constructor(page) {
    this.page = page;
  }

  open(main) {
    this.body = h("div", {}, h("p", { class: "empty" }, "…"));
    main.replaceChildren(h("section", { class: "wide", "aria-label": "Progress" }, this.body));
    return this.look();
  }

  close() {
    clearTimeout(this.next);
    this.body = null;
  }

  key() {
    return false;
  }

  async look() {
    clearTimeout(this.next);
    try {
      const figures = await call("/api/progress");
      this.page.noted(figures);
      if (this.body) this.show(figures);
    } catch (error) {
      this.page.failed(error);
    }
    if (this.body) this.next = setTimeout(() => this.look(), OFTEN);
  }

  show(figures) {
    const now = JSON.stringify(figures);
    if (now === this.shown && this.body.childElementCount > 1) return;
    this.shown = now;
    const parts = [
      this.verdict(figures),
      this.facts(figures),
      h("div", { class: "halves" }, this.course(figures), h("div", {}, this.bars(figures), this.people(figures))),
      this.quality(figures),
      suggester(figures),
      this.trouble(figures),
    ];
    this.body.replaceChildren(...parts.filter(Boolean));
  }

  verdict({ advice, status, proof, agreement }) {
    const busy = Boolean(status.doing);
    const train = () => this.act("/api/train", {});
    const offered = proof && proof.questions !== null && !proof.asking;
    const prove = () => this.act("/api/prove", {});
    const agree = agreement === null ? [] : [`Krippendorff’s alpha of people who answered the same examples is ${agreement.toFixed(2)}.`];
    const details = [LEFT, NEW, BAND, ...advice.details, ...agree];
    return h(
      "div",
      { class: `verdict ${advice.stop ? "stop" : "go"}` },
      h("h1", {}, advice.headline),
      h("ul", {}, advice.reasons.map((each) => h("li", {}, each))),
      h(
        "p",
        { class: "acts manage" },
        offered && h("button", { type: "button", class: "done", onclick: prove }, `Prove it: about ${counted(proof.questions, "random question")}`),
        h("button", { type: "button", class: "quiet", disabled: busy, onclick: train }, busy ? doing(status) : "Train now"),
      ),
      h("details", { open: this.explained, ontoggle: (event) => (this.explained = event.target.open) }, h("summary", {}, "How is this computed?"), details.map((each) => h("p", {}, each))),
    );
  }

  facts(figures) {
    const { accuracy, new_data: fresh } = figures;
    const show = inUnit(accuracy);
    const fact = (value, name, more = "") => h("div", {}, h("dt", {}, name), h("dd", {}, value, more && h("small", {}, more)));
    const right = accuracy.measure === "accuracy";
    const bound = (found) => (right ? `at least ${show(found.low)}` : `at most ${show(found.high)}`);
    const number = (found, where) =>
      fact(found ? bound(found) : "–", `${right ? "right" : "mean error"}, ${where}`, found ? `about ${show(found.estimate)}` : "");
    const { recall } = figures;
    return h(
      "dl",
      { class: "facts" },
      recall && fact(`at least ${percent(recall.low)}`, `of “${recall.name}” found`, `${count(recall.found)} found, at most ${count(recall.missed)} missed`),
      number(accuracy.estimate === null ? null : accuracy, "of what is left here"),
      number(fresh, "on new data like this"),
      fact(count(figures.answered), `answers, of ${counted(figures.examples, "example")}${figures.copies ? ` and ${counted(figures.copies, "near-copy", "near-copies")}` : ""}`),
      fact(count(accuracy.audited), "of them measure the model"),
      fact(figures.per_minute.toFixed(1), "answers per minute"),
      fact(count(figures.models), "models so far"),
    );
  }

  course({ accuracy, curve: points }) {
    const width = Math.min(640, document.documentElement.clientWidth - 30);
    return h(
      "div",
      {},
      h("h2", {}, `${capital(accuracy.measure)} over rounds`),
      curve(points, accuracy.goal, inUnit(accuracy), accuracy.measure, width),
      h("p", { class: "soft" }, `Each point is a model, measured by today’s audit of what is left. The band has its bounds${accuracy.goal === null ? "." : ", the line the goal."}`),
    );
  }

  /** By class, with the confusions that matter; what picking saved; how much is disagreement. */
  quality({ classes, confusions, savings, noise }) {
    const bound = (low) => (low === null ? "too few answers" : `at least ${percent(low, 0)}`);
    const row = (each) =>
      h("tr", {}, h("th", { scope: "row" }, each.name), h("td", {}, bound(each.precision)), h("td", {}, bound(each.recall)), h("td", { class: "figure" }, count(each.answered)));
    const head = ["class", "right, of those predicted", "predicted, of the class", "audited"].map((each) => h("th", { scope: "col" }, each));
    const told = classes.some((each) => each.precision !== null || each.recall !== null);
    const notes = [savings && saved(savings), noise && disagreement(noise)].filter(Boolean);
    if (!told && !confusions.length && !notes.length) return null;
    return h(
      "div",
      { class: "quality" },
      notes.map((each) => h("p", {}, each)),
      told && [h("h2", {}, "By class, of what is left here"), h("div", { class: "scroll" }, h("table", { class: "classes" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, classes.map(row)))), h("p", { class: "soft" }, "Each bound holds with 95 % probability by itself.")],
      confusions.length > 0 && [h("h2", {}, "What the model confuses"), ...confusions.map(confusion)],
    );
  }

  /** What does not work, and can be set right. */
  trouble({ status, unreadable, unreadable_count: n }) {
    const lines = [status.problem && `The last training failed: ${status.problem}`, status.note].filter(Boolean);
    if (!lines.length && !n) return null;
    const files = n ? h("details", {}, h("summary", {}, `${counted(n, "file")} cannot be read`), h("ul", {}, Object.entries(unreadable).map(([name, why]) => h("li", {}, `${name}: ${why}`)))) : null;
    return h("div", { class: "trouble" }, h("h2", {}, "Notes"), lines.map((each) => h("p", {}, each)), files);
  }

  bars({ counts }) {
    const classes = Object.entries(counts);
    if (this.page.spec.kind === "number") return null;
    const most = Math.max(1, ...classes.map(([, n]) => n));
    const bar = ([name, n]) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, name),
        h("td", { class: "fill" }, h("meter", { min: 0, max: most, value: n, "aria-label": counted(n, "answer") })),
        h("td", { class: "figure" }, count(n)),
        h("td", {}, h("button", { type: "button", class: "quiet manage", "aria-label": `Change ${name}`, onclick: () => this.change(name) }, "Change")),
      );
    const add = h("button", { type: "button", class: "quiet manage", onclick: () => this.add() }, "Add a class");
    return [h("h2", {}, "Answers by class"), h("table", { class: "bars" }, h("tbody", {}, classes.map(bar))), add];
  }

  people({ people: found }) {
    const people = Object.entries(found);
    if (people.length < 2) return null;
    const row = ([name, n]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "figure" }, counted(n, "answer")));
    return [h("h2", {}, "People"), h("table", { class: "bars" }, h("tbody", {}, people.map(row)))];
  }

  /** Rename a class, or merge it into another. */
  async change(name) {
    const title = h("input", { name: "title", value: name, "aria-label": "New name", maxlength: 200, autofocus: true });
    const others = this.page.spec.classes.filter((each) => each.name !== name);
    let into = null;
    const merge = menu(others.map((each) => each.name), null, "another class…", "Merge into", (other) => (into = other));
    const form = h(
      "form",
      { method: "dialog", class: "fields" },
      h("h2", {}, `Change “${name}”`),
      h("label", {}, "Rename it", title),
      h("div", { class: "soft" }, "Or merge its answers into", merge),
      choice("Save"),
    );
    if ((await dialog(form)) !== "save") return;
    if (into) await this.act("/api/classes/merge", { name, into });
    else if (title.value.trim() && title.value !== name) await this.act("/api/classes/rename", { name, to: title.value });
  }

  async add() {
    const title = h("input", { name: "title", "aria-label": "Name", maxlength: 200, required: true, autofocus: true });
    const form = h(
      "form",
      { method: "dialog", class: "fields" },
      h("h2", {}, "Add a class"),
      h("label", {}, "Its name", title),
      choice("Add"),
    );
    if ((await dialog(form)) === "save" && title.value.trim()) await this.act("/api/classes/add", { name: title.value });
  }

  async act(path, body) {
    try {
      await call(path, { ...body, person: this.page.person });
      await this.page.refresh();
      await this.look();
    } catch (error) {
      this.page.failed(error);
    }
  }
}

function saved({ random_labels: random, picks, low, high, minutes }) {
  const answers = Math.round(random - picks);
  const range = low === null ? `at most ${count(Math.round(high))}` : `between ${count(Math.round(low))} and ${count(Math.round(high))}`;
  const time = minutes === null || minutes < 1 ? "" : `, about ${counted(Math.round(minutes), "minute")}`;
  const words = answers >= 0 ? `saved about ${counted(answers, "answer")}` : `cost about ${counted(-answers, "answer")} more`;
  return `Picking ${words}${time}: ${count(Math.round(picks))} picks are as good as ${count(random)} random answers (an estimate from the audit; ${range} saved).`;
}

const disagreement = ({ answer_error: wrong, model_error: model, twice }) =>
  `People differ: about ${percent(wrong)} of answers are wrong, by ${count(twice)} examples that two people answered. Were all answers right, the model would err in about ${percent(model)}.`;

/** A pair of classes, with examples. */
function confusion({ answer, prediction, count: n, examples }) {
  const shown = (each) =>
    each.kind === "image" ? h("img", { src: local(`/api/content/${encodeURIComponent(each.key)}?small=true`), alt: each.name, title: each.name, loading: "lazy" }) : h("span", {}, each.name);
  return h("div", { class: "confusion" }, h("p", {}, `“${answer}” taken for “${prediction}”: ${counted(n, "time")}`), h("div", { class: "pictures" }, examples.map(shown)));
}


/** To do it or to leave it; the first of them is what Enter means. */
const choice = (words) =>
  h(
    "div",
    { class: "foot reversed" },
    h("button", { value: "save", class: "done" }, words),
    h("button", { value: "", class: "quiet", formnovalidate: true }, "Leave it"),
  );
