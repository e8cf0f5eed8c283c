// Answers on their way. Each is kept in this browser until the server has said that it is on disk, and has an id
// made here, so that sending it twice does no harm.

import { Away, call, Refused } from "./server.js";

const PATIENCE = 1500; // ms that the page waits for a reply before it goes on without
const AT_ONCE = 200; // answers in one call
const PAUSES = [500, 1000, 2000, 4000]; // ms between attempts while the server is away

export class Outbox {
  /** `changed()` is called when something is kept or sent, `refused(words)` when the server will not have it. */
  constructor(project, changed, refused) {
    this.prefix = `jostle:${project}:kept:`;
    this.changed = changed;
    this.refused = refused;
    this.kept = new Map(); // id -> entry, in the order given
    this.failures = 0;
    this.arrivals = []; // when the server took answers from this page, of those that no figures count yet
    this.under_way = null;
    this.load();
    for (const event of ["online", "focus"]) addEventListener(event, () => this.kept.size && this.send());
    addEventListener("storage", () => this.load()); // another tab keeps or sends
  }

  /** Read what is kept in this browser, by this tab and others. */
  load() {
    const stored = Object.keys(localStorage).filter((name) => name.startsWith(this.prefix));
    const entries = stored.map((name) => JSON.parse(localStorage.getItem(name))).filter(Boolean);
    entries.push(...[...this.kept.values()].filter((entry) => entry.loose));
    entries.sort((a, b) => a.at - b.at);
    this.kept = new Map(entries.map((entry) => [entry.id, entry]));
    this.changed();
  }

  /** Keep an answer and send it; ends when it is on the server's disk, or the server does not say so in time. */
  give(entry) {
    return this.giveAll([entry]);
  }

  /** Keep several answers and send them. */
  async giveAll(entries) {
    for (const entry of entries) this.keep({ ...entry, id: newId(), at: Date.now() });
    return new Promise((done) => {
      setTimeout(done, PATIENCE);
      this.send(done).then(done);
    });
  }

  keep(whole) {
    this.kept.set(whole.id, whole);
    try {
      localStorage.setItem(this.prefix + whole.id, JSON.stringify(whole));
    } catch {
      whole.loose = true; // a full or forbidden storage: the answer is in memory, and sent all the same
    }
  }

  /** Send all that is kept, in order; at most one batch is under way. `done()` is called when all of it is on disk. */
  async send(done = () => {}) {
    while (this.under_way) await this.under_way;
    if (!this.kept.size) return;
    this.under_way = this.batch(done).finally(() => (this.under_way = null));
    await this.under_way;
  }

  /** End when all answers of a bulk are sent; throw Away where the server takes none. */
  async sent(bulk) {
    const waiting = () => [...this.kept.values()].filter((entry) => entry.bulk === bulk).length;
    for (let left = Infinity; waiting(); left = waiting()) {
      if (waiting() >= left) throw new Away("The server is away.");
      await this.send();
    }
  }

  async batch(done) {
    clearTimeout(this.again);
    const entries = [...this.kept.values()];
    const person = entries[0].person; // kept for one person at a time
    const mine = entries.filter((entry) => entry.person === person).slice(0, AT_ONCE);
    try {
      const reply = await call("/api/answers", { person, answers: mine.map(wire) }, done);
      for (const id of reply.kept) this.drop(id);
      this.arrivals.push(...reply.kept.map(() => performance.now()));
      for (const { id, words } of reply.refused) {
        this.drop(id);
        this.refused(words);
      }
      this.failures = 0;
      this.changed();
      if (this.kept.size) this.later(0);
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error) {
    if (!(error instanceof Away || error instanceof Refused)) throw error;
    if (error instanceof Refused && !this.failures) this.refused(error.message);
    this.later(PAUSES[Math.min(this.failures++, PAUSES.length - 1)]);
    this.changed();
  }

  later(pause) {
    clearTimeout(this.again);
    this.again = setTimeout(() => this.send(), pause);
  }

  drop(id) {
    this.kept.delete(id);
    localStorage.removeItem(this.prefix + id);
  }
}

/** An id that nobody else makes. `crypto.randomUUID` is only there for pages of this machine, and `--host` serves others. */
export const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const wire = ({ id, key, answer, seconds, bulk }) => ({ id, key, answer, seconds, bulk });
