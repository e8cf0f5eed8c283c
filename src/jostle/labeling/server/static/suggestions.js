// What models take an example for: hidden until somebody asks, as it influences people.

import { roughly } from "./choices.js";
import { count, counted, h, percent } from "./dom.js";
import { capital, inUnit } from "./figures.js";
import { address, call } from "./server.js";

/** Show what models take the example of a view for. */
export async function suggest(view) {
  const question = view.current;
  const { page } = view;
  try {
    const found = await call(address(`/api/suggestion/${encodeURIComponent(question.key)}`, { person: page.person }));
    if (question !== view.current || !view.suggesting) return;
    const own = found.answer === null ? null : `${says("The model", found)}.`;
    const other = found.other ? `${says(found.other.name, found.other)}${record(page.figures)}.` : null;
    view.hint.textContent = [own, other].filter(Boolean).join(" ") || "No suggestion for this one.";
    view.hint.hidden = false;
  } catch (error) {
    view.page.failed(error);
  }
}

const says = (who, { answer, confidence }) => `${who} says ${roughly(answer)}${confidence === null ? "" : ` (${percent(confidence, 0)})`}`;

/** How often the other model is right here, with bounds: "right 83 % of the time here (76 to 89)". */
function measured({ suggested, accuracy }) {
  if (accuracy.measure !== "accuracy") {
    const show = inUnit(accuracy);
    return `mean error ${show(suggested.estimate)} here (${show(suggested.low)} to ${show(suggested.high)})`;
  }
  const bounds = `${(100 * suggested.low).toFixed(0)} to ${(100 * suggested.high).toFixed(0)}`;
  return `right ${percent(suggested.estimate, 0)} of the time here (${bounds})`;
}

const record = (figures) => (figures?.suggested ? `, ${measured(figures)}` : "");

/** What Progress says of another model's suggestions. */
export function suggester(figures) {
  if (!figures.suggester) return null;
  const { name, calls, limit, problem } = figures.suggester;
  const used = limit === null ? "" : `, ${count(calls)} of at most ${count(limit)} calls`;
  const made = `${counted(figures.suggestions, "suggestion")}${used}.`;
  const right = figures.suggested
    ? `${capital(measured(figures))}, by the random audit, whose questions show none; the bounds hold with 95 % probability for this figure alone.`
    : "How often it is right is known once examples of the audit have answers.";
  return h("div", {}, h("h2", {}, `Suggestions of ${name}`), h("p", { class: "soft" }, `${made} ${right}`), problem ? h("p", { class: "problem" }, problem) : null);
}

