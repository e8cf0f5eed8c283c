// Remarks beside an answer: unsure, a note, a flag.

import { dialog, h, toast } from "./dom.js";
import { call } from "./server.js";

const LONGEST = 2000; // characters of a note

/** Store a remark; a text of null withdraws it. True when it is on disk. */
export async function remark(page, question, kind, text = "") {
  try {
    await call("/api/remark", { person: page.person, key: question.key, kind, text });
    return true;
  } catch (error) {
    page.failed(error);
    if (!error.status) toast("The server is away: the remark was not stored.", "bad");
    return false;
  }
}

/** Flag an example, or take the flag back. */
export async function flag(page, question) {
  const on = !question.flagged;
  if (!(await remark(page, question, "flag", on ? "" : null))) return;
  question.flagged = on;
  toast(on ? `${question.name} is flagged.` : `${question.name} is no longer flagged.`);
}

/** Write a note on an example. */
export async function note(page, question) {
  const words = h("textarea", { rows: 4, maxlength: LONGEST, autofocus: true, "aria-label": "Note" });
  words.value = question.note ?? "";
  words.addEventListener("keydown", (event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && form.requestSubmit(save));
  const save = h("button", { value: "save", class: "done" }, "Save");
  const form = h(
    "form",
    { method: "dialog", class: "fields" },
    h("h2", {}, `Note on ${question.name}`),
    h("p", { class: "soft" }, "It is kept beside the answer, in the review and in exports. An empty note is taken back."),
    words,
    h("div", { class: "foot reversed" }, save, h("button", { value: "", class: "quiet" }, "Leave it")),
  );
  if ((await dialog(form)) !== "save" || words.value.trim() === (question.note ?? "")) return;
  if (!(await remark(page, question, "note", words.value.trim() || null))) return;
  question.note = words.value.trim();
  toast(question.note ? "The note is stored." : "The note is taken back.");
}
