// What a model takes an example for: hidden until somebody asks, as it influences people.

import { roughly } from "./choices.js";
import { percent } from "./dom.js";
import { call } from "./server.js";

/** Show what the model takes the example of a view for. */
export async function suggest(view) {
  const question = view.current;
  try {
    const { answer, confidence } = await call(`/api/suggestion/${encodeURIComponent(question.key)}`);
    if (question !== view.current || !view.suggesting) return;
    const sure = confidence === null ? "" : ` (${percent(confidence, 0)})`;
    view.hint.textContent = answer === null ? "No suggestion for this one." : `The model says ${roughly(answer)}${sure}.`;
    view.hint.hidden = false;
  } catch (error) {
    view.page.failed(error);
  }
}
