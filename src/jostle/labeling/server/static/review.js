// Answers to look at again: those that are likely mistakes, those on which people disagree, and all, with search.

import { cap, inWords, roughly } from "./choices.js";
import { count, counted, h, percent, toast } from "./dom.js";
import { closeUp, small } from "./example.js";
import { corrector } from "./picker.js";
import { address, call } from "./server.js";

const PARTS = {
  doubts: ["Doubted", "More likely a slip than not, by a model that has not seen the answer. What you choose here is final."],
  disagreements: ["Disagreed", "People gave different answers. What you choose here is final."],
  remarks: ["Remarks", "What people were unsure of, noted or flagged. An answer that you choose here is final."],
  answers: ["All answers", "Newest first. A correction replaces the answer; what was said before is kept in the project."],
};
const AT_ONCE = 50;

export class ReviewView {
  constructor(page) {
    this.page = page;
    this.part = "doubts";
  }

  open(main) {
    this.main = main;
    const tab = (part) =>
      h("button", { type: "button", "aria-pressed": String(part === this.part), onclick: () => this.turn(part) }, PARTS[part][0]);
    this.list = h("div", { class: "list" });
    this.foot = h("div", { class: "foot", "aria-live": "polite" });
    main.replaceChildren(
      h(
        "section",
        { class: "wide", "aria-label": "Review" },
        h("h1", {}, "Answers to look at again"),
        h("div", { class: "chips", role: "group", "aria-label": "What to look at" }, Object.keys(PARTS).map(tab)),
        h("p", { class: "soft" }, PARTS[this.part][1], this.settles && this.page.keys.on ? " Digits choose, arrows move on." : ""),
        this.settles ? null : this.search(),
        this.list,
        this.foot,
      ),
    );
    return this.load(1);
  }

  /** Whether this part has answers side by side to choose between. */
  get settles() {
    return this.part === "doubts" || this.part === "disagreements";
  }

  /** A digit chooses between the answers of the current example, arrows move to another one. */
  key(event) {
    if (!this.settles || !this.current) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) return this.move(step);
    const button = this.current.querySelectorAll(".option")[Number(event.key) - 1];
    button?.click();
    return Boolean(button);
  }

  move(step) {
    const items = [...this.list.querySelectorAll(".item")];
    const to = items[items.indexOf(this.current) + step];
    if (to) this.point(to);
    return Boolean(to);
  }

  /** Make an example the one that keys are about. */
  point(item) {
    this.current?.removeAttribute("aria-current");
    this.current = item;
    item?.setAttribute("aria-current", "true");
    item?.scrollIntoView({ block: "nearest" });
  }

  turn(part) {
    this.part = part;
    this.open(this.main);
    this.main.querySelector(".chips [aria-pressed=true]").focus();
  }

  search() {
    const input = h("input", { type: "search", "aria-label": "Search", placeholder: this.part === "remarks" ? "Search notes, names and people" : "Search names, texts, answers and people", value: this.words ?? "" });
    let typing;
    input.addEventListener("input", () => {
      this.words = input.value;
      clearTimeout(typing);
      typing = setTimeout(() => this.load(1), 200);
    });
    return h("div", { class: "search" }, input);
  }

  async load(number) {
    const asked = `${this.part} ${(this.asking = (this.asking ?? 0) + 1)}`;
    const query = this.settles ? { n: AT_ONCE } : { search: this.words || null, page: this.part === "answers" ? number : null };
    try {
      const { examples, total, pages } = await call(address(`/api/${this.part}`, query));
      if (asked !== `${this.part} ${this.asking}`) return;
      this.current = null;
      this.list.replaceChildren(...(examples.length ? examples.map((each) => this.item(each)) : [this.none()]));
      if (this.settles) this.point(this.list.querySelector(".item"));
      this.turner(number, total, pages);
    } catch (error) {
      this.page.failed(error);
    }
  }

  none() {
    const say = (head, words) => h("p", { class: "empty" }, h("b", {}, head), words);
    if (this.part === "doubts") return say("No doubts", "No answer is more likely a slip than not.");
    if (this.part === "disagreements") return say("No disagreements", "Nobody disagrees with anybody.");
    if (this.part === "remarks" && !this.words) return say("No remarks", "Nobody was unsure, noted or flagged anything.");
    return this.words ? say("Nothing found", "No answer has these words.") : say("No answers yet", "They are listed here as people give them.");
  }

  item(example) {
    const look = h("button", { type: "button", "aria-label": `${example.name}: look closely`, onclick: () => closeUp(example) }, small(example));
    const item = h("article", { class: "item", "data-key": example.key, onpointerdown: () => this.settles && this.point(item) });
    const settle = async (answer) => {
      if (!(await this.page.corrected(example.key, answer))) return;
      item.classList.add("answered");
      for (const button of item.querySelectorAll(".option")) button.setAttribute("aria-pressed", String(button.dataset.answer === JSON.stringify(answer)));
      toast(`${example.name}: ${inWords(answer)}.`);
      this.settled(item);
    };
    const options = this.options(example).map((option, place) => this.option(option, place, settle));
    item.append(
      h("div", { class: "thumb" }, look),
      h("div", { class: "what" }, h("h2", {}, example.name), options.length ? h("div", { class: "options" }, options) : h("ul", { class: "said" }, example.said.map(line))),
      h("div", { class: "settle" }, corrector(this.page.spec, this.settles ? null : example.answer, `${example.name}: another answer`, settle)),
    );
    return item;
  }

  /** The answers to choose between, each with who gave it; none in the list of all. */
  options(example) {
    if (!this.settles) return [];
    const by = new Map();
    for (const { person, answer } of example.said) {
      const same = JSON.stringify(answer);
      by.set(same, [...(by.get(same) ?? []), person]);
    }
    const options = [...by].map(([answer, people]) => ({ answer: JSON.parse(answer), words: inWords, who: people.join(", ") }));
    if (this.part !== "doubts") return options;
    const { answer, confidence } = example.suggestion;
    return [...options, { answer, words: roughly, who: confidence === null ? "the model" : `the model, ${percent(confidence, 0)}` }];
  }

  option({ answer, words, who }, place, settle) {
    const attributes = { type: "button", class: "option", "aria-pressed": "false", "data-answer": JSON.stringify(answer), onclick: () => settle(answer) };
    return h("button", attributes, this.page.keys.on && place < 9 ? cap(String(place + 1)) : null, h("b", {}, words(answer)), h("span", {}, who));
  }

  /** Go on to the next one that is not settled; when all are, look for more. */
  settled(item) {
    if (!this.settles) return;
    const items = [...this.list.querySelectorAll(".item")];
    const left = items.filter((each) => !each.classList.contains("answered"));
    this.foot.replaceChildren(h("span", { class: "soft" }, `${count(items.length - left.length)} of ${count(items.length)} settled`));
    if (!left.length) this.load(1);
    else if (item === this.current) this.point(left.find((each) => items.indexOf(each) > items.indexOf(item)) ?? left[0]);
  }

  turner(number, total, pages) {
    if (this.part !== "answers" || !total) return this.foot.replaceChildren();
    const turn = (to, words) => h("button", { type: "button", class: "quiet", disabled: to < 1 || to > pages, onclick: () => this.load(to) }, words);
    const place = `Page ${count(number)} of ${count(pages)} · ${counted(total, "answer")}`;
    return this.foot.replaceChildren(turn(number - 1, "Newer"), h("span", { class: "soft" }, place), turn(number + 1, "Older"));
  }
}

/** Who said what, and when. */
function line({ person, answer, act, at, kind, text }) {
  const remarked = { unsure: "unsure", flag: "flagged", note: `“${text}”` };
  const what = kind ? remarked[kind] : act === "skip" ? "skipped" : inWords(answer);
  const when = at ? h("time", { datetime: new Date(1000 * at).toISOString() }, `, ${new Date(1000 * at).toLocaleString()}`) : null;
  return h("li", {}, h("b", {}, what), ` by ${person}`, act === "correction" ? ", who corrected it" : "", when);
}
