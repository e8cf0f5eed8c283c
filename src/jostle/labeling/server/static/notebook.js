// The question view inside the frame of a notebook: the page's own view and keys, for one person.

import { byId, toast } from "./dom.js";
import { Guide } from "./guide.js";
import { Keys, pressed } from "./keys.js";
import { LabelView } from "./label.js";
import { Outbox } from "./outbox.js";
import { Away, call } from "./server.js";

const OFTEN = 5000; // ms between looks at the figures, which are taken while somebody answers

class Notebook {
  async start() {
    this.person = document.body.dataset.person;
    const { id, answers } = await this.arrive();
    this.project = id;
    this.spec = answers;
    this.outbox = new Outbox(id, () => this.changed(), (words) => toast(words, "bad"));
    this.keys = new Keys(id);
    this.guide = new Guide(this);
    this.view = new LabelView(this);
    document.addEventListener("keydown", (event) => pressed(event, this.keys, this.view));
    document.addEventListener("click", (event) => event.target.closest?.("a[href^='#']") && event.preventDefault()); // views that are not here
    this.view.open(byId("main"));
    this.look();
  }

  /** Read what the project is; a kernel that runs another cell replies when it is done. */
  async arrive() {
    for (;;) {
      try {
        return await call("/api/project");
      } catch (error) {
        this.failed(error);
      }
    }
  }

  /** Something was kept or sent. */
  changed() {
    this.view?.tell();
    if (performance.now() - this.looked > OFTEN) this.look();
  }

  async look() {
    this.looked = performance.now();
    try {
      this.figures = await call("/api/progress");
      this.outbox.arrivals = []; // they are counted in the figures
      this.view.tell();
    } catch (error) {
      this.failed(error);
    }
  }

  failed(error) {
    if (!(error instanceof Away)) toast(error.message, "bad");
  }
}

globalThis.fetch = frameElement.call;
new Notebook().start();
