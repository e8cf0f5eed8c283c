// The page: who is labeling, which view is open, what keys mean, and whether the server is there.

import { byId, counted, dialog, h, toast } from "./dom.js";
import { GridView } from "./grid.js";
import { Guide } from "./guide.js";
import { Keys, pressed } from "./keys.js";
import { LabelView } from "./label.js";
import { FindView } from "./map.js";
import { Outbox } from "./outbox.js";
import { ProgressView } from "./progress.js";
import { ReviewView } from "./review.js";
import { Away, call, link, local } from "./server.js";

const VIEWS = { label: LabelView, grid: GridView, find: FindView, review: ReviewView, progress: ProgressView };
const OFTEN = 5000; // ms between looks at the figures
const NAME = "jostle:person"; // where a tab keeps who is labeling in it, and the browser who did last

class Page {
  async start() {
    link.changed = () => this.tellLine();
    const given = new URLSearchParams(location.search).get("name")?.trim();
    if (given) remember(given); // at once, as the page may be left before the server has replied
    await this.arrive();
    this.outbox = new Outbox(this.project, () => this.changed(), (words) => toast(words, "bad"));
    await this.outbox.send();
    this.keys = new Keys(this.project);
    this.guide = new Guide(this);
    this.views = Object.fromEntries(Object.entries(VIEWS).map(([name, View]) => [name, new View(this)]));
    byId("person").addEventListener("click", () => this.introduce());
    addEventListener("hashchange", () => this.turn());
    addEventListener("pagehide", () => this.leave());
    document.addEventListener("keydown", (event) => pressed(event, this.keys, this.view));
    this.person = this.own || given || sessionStorage.getItem(NAME);
    byId("person").disabled = Boolean(this.own); // a token of one's own has a name
    if (!this.person) await this.introduce();
    this.named(this.person);
    this.turn();
    this.watch();
  }

  /** Read what the project is, however long the server takes to be there. */
  async arrive() {
    for (;;) {
      try {
        await this.refresh();
        return;
      } catch (error) {
        this.failed(error);
        await new Promise((done) => setTimeout(done, 1000));
      }
    }
  }

  /** Read the project again: its classes may have changed. */
  async refresh() {
    const { id, person, answers } = await call("/api/project");
    this.project = id;
    this.own = person;
    this.spec = answers;
  }

  /** Ask for a name, once. */
  async introduce() {
    const input = h("input", { name: "name", maxlength: 64, required: true, autocomplete: "nickname", autofocus: true, value: this.person ?? lastName(), "aria-label": "Your name" });
    const form = h(
      "form",
      { method: "dialog", class: "fields" },
      h("h2", {}, "Who is labeling?"),
      h("p", { class: "soft" }, "Your name is kept with your answers, so that several people can share the work and agreement can be counted."),
      input,
      h("div", { class: "foot" }, h("button", { class: "done" }, "Begin")),
    );
    do await dialog(form);
    while (!input.value.trim() && !this.person);
    this.named(input.value.trim() || this.person);
  }

  named(person) {
    const changed = this.person && this.person !== person;
    this.person = person;
    remember(person);
    byId("person").textContent = person;
    if (changed) {
      this.views.label = new LabelView(this);
      this.turn();
    }
  }

  /** Give open questions back, so that others are asked them. */
  leave() {
    const body = new Blob([JSON.stringify({ person: this.person })], { type: "application/json" });
    navigator.sendBeacon(local("/api/release"), body);
  }

  /** Open the view that the address names. */
  turn() {
    const links = [...document.querySelectorAll("nav a")]; // views that this person may open
    const name = links.some(({ hash }) => hash === location.hash) ? location.hash.slice(1) : "label";
    for (const link of links)
      if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    this.view?.close?.();
    this.view = this.views[name];
    document.body.dataset.view = name;
    this.view.open(byId("main"));
  }

  /** Look at the figures now and then while somebody does. */
  async watch() {
    if (!document.hidden && this.view !== this.views.progress) {
      try {
        this.noted(await call("/api/progress"));
      } catch (error) {
        this.failed(error);
      }
    }
    setTimeout(() => this.watch(), OFTEN);
  }

  noted(figures) {
    this.figures = figures;
    const then = performance.now() - 1000 * figures.age;
    this.outbox.arrivals = this.outbox.arrivals.filter((at) => at > then); // the others are counted in the figures
    this.views.label.tell();
    this.tellLine();
  }

  /** Correct an answer; true when it is on disk. */
  async corrected(key, answer) {
    try {
      await call("/api/correct", { person: this.person, key, answer });
      return true;
    } catch (error) {
      this.failed(error);
      return false;
    }
  }

  failed(error) {
    if (!(error instanceof Away)) toast(error.message, "bad");
  }

  /** Something was kept or sent. */
  changed() {
    this.tellLine();
    this.views?.label.tell();
  }

  /** Say whether answers are safe. */
  tellLine() {
    const line = byId("line");
    const kept = this.outbox?.kept.size ?? 0;
    line.dataset.state = link.there ? "there" : "away";
    line.textContent = link.there ? "" : `Server away${kept ? ` · ${counted(kept, "answer")} kept here` : ""}`;
  }
}

/** Keep a name in this tab alone, where reloading finds it; another tab offers it, and asks. */
function remember(person) {
  try {
    sessionStorage.setItem(NAME, person);
    localStorage.setItem(NAME, person);
  } catch {
    // a forbidden storage: the name is asked for again next time
  }
}

function lastName() {
  try {
    return localStorage.getItem(NAME) ?? "";
  } catch {
    return "";
  }
}

new Page().start();
