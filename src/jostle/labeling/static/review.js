// Answers to look at again: those that the model doubts, those on which people disagree, and all, with search.

import { corrector, inWords, roughly } from "./choices.js";
import { count, counted, h, percent, toast } from "./dom.js";
import { closeUp, small } from "./example.js";
import { address, call } from "./server.js";

const PARTS = {
  doubts: ["Doubted", "The model, trained without them, holds another answer for far more likely: often a slip of the finger."],
  disagreements: ["Disagreed", "People gave different answers. What you choose here settles it."],
  answers: ["All answers", "Newest first. A correction replaces the answer; what was said before is kept in the project."],
};

export class ReviewView {
  constructor(page) {
    this.page = page;
    this.part = "doubts";
  }

  open(main) {
    const tab = (part) =>
      h("button", { type: "button", "aria-pressed": String(part === this.part), onclick: () => this.turn(part, main) }, PARTS[part][0]);
    this.list = h("div", { class: "list", "aria-live": "polite" });
    this.foot = h("div", { class: "foot" });
    main.replaceChildren(
      h(
        "section",
        { class: "wide", "aria-label": "Review" },
        h("h1", {}, "Answers to look at again"),
        h("div", { class: "chips", role: "group", "aria-label": "What to look at" }, Object.keys(PARTS).map(tab)),
        h("p", { class: "soft" }, PARTS[this.part][1]),
        this.part === "answers" ? this.search() : null,
        this.list,
        this.foot,
      ),
    );
    return this.load(1);
  }

  key() {
    return false;
  }

  turn(part, main) {
    this.part = part;
    this.open(main);
  }

  search() {
    const input = h("input", { type: "search", "aria-label": "Search", placeholder: "Search names, texts, answers and people", value: this.words ?? "" });
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
    const query = this.part === "answers" ? { search: this.words || null, page: number } : { n: 50 };
    try {
      const { examples, total, pages } = await call(address(`/api/${this.part}`, query));
      if (asked !== `${this.part} ${this.asking}`) return;
      this.list.replaceChildren(...(examples.length ? examples.map((each) => this.item(each)) : [h("p", { class: "empty" }, this.none())]));
      this.turner(number, total, pages);
    } catch (error) {
      this.page.failed(error);
    }
  }

  none() {
    if (this.part === "doubts") return "The model doubts none of the answers so far.";
    if (this.part === "disagreements") return "Nobody disagrees with anybody.";
    return this.words ? "No answer has these words." : "No answers yet.";
  }

  item(example) {
    const settle = async (answer) => {
      if (await this.page.corrected(example.key, answer)) {
        item.classList.add("answered");
        toast(`${example.name}: ${inWords(answer)}.`);
      }
    };
    const item = h(
      "article",
      { class: "item", "data-key": example.key },
      h("div", { class: "thumb" }, h("button", { type: "button", "aria-label": `${example.name}: look closely`, onclick: () => closeUp(example) }, small(example))),
      h("div", { class: "what" }, h("h2", {}, example.name), this.about(example)),
      h("div", { class: "settle" }, corrector(this.page.spec, example.answer, `${example.name}: the answer`, settle)),
    );
    return item;
  }

  about(example) {
    if (this.part === "doubts") {
      const { answer, confidence } = example.suggestion;
      const sure = confidence === null ? "" : ` (${percent(confidence, 0)})`;
      return h("p", {}, `Answered ${inWords(example.answer)}; the model says `, h("b", {}, roughly(answer)), sure);
    }
    return h("ul", { class: "said" }, example.said.map(line));
  }

  turner(number, total, pages) {
    if (this.part !== "answers" || !total) return this.foot.replaceChildren();
    const turn = (to, words) => h("button", { type: "button", class: "quiet", disabled: to < 1 || to > pages, onclick: () => this.load(to) }, words);
    const place = `Page ${count(number)} of ${count(pages)} · ${counted(total, "answer")}`;
    return this.foot.replaceChildren(turn(number - 1, "Newer"), h("span", { class: "soft" }, place), turn(number + 1, "Older"));
  }
}

/** Who said what, and when. */
function line({ person, answer, act, at }) {
  const what = act === "skip" ? "skipped" : inWords(answer);
  const when = at ? h("time", { datetime: new Date(1000 * at).toISOString() }, `, ${new Date(1000 * at).toLocaleString()}`) : null;
  return h("li", {}, h("b", {}, what), ` by ${person}`, act === "correction" ? ", who corrected it" : "", when);
}
