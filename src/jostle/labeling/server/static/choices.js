// What can be answered, and by which keys.

import { h, toast } from "./dom.js";

const NAMES = { " ": "Space", Backspace: "⌫" };
const shown = (key) => NAMES[key] ?? (key.length === 1 ? key.toUpperCase() : key);
/** A key cap. */
export const cap = (key) => h("kbd", {}, shown(key));

/** An answer in words. */
export function inWords(answer) {
  if (answer === null || answer === undefined) return "–";
  if (Array.isArray(answer)) return answer.length ? answer.join(", ") : "none of them";
  return String(answer);
}

/** What a model says, in words: a number with no more digits than it can know. */
export const roughly = (answer) =>
  typeof answer === "number" ? answer.toLocaleString("en", { maximumSignificantDigits: 4 }) : inWords(answer);

const PLAIN = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i; // 1250, 12.5, 1e6
const GROUPED = /^[+-]?[1-9]\d{0,2}(?:([,\s'_])\d{3}(?:\1\d{3})*)(\.\d+)?$/; // 1,250 and 1 250 000.5
const COMMA = /^[+-]?[\d\s'_]*\d,\d+$/; // a comma that may be a decimal point or a typing error: 1,25

/** Parse a number: { value }, or { problem } in words where there is none, or two. */
export function number(text) {
  const typed = text.trim();
  const plain = typed.replace(/[,\s'_]/g, "");
  if ((PLAIN.test(typed) || GROUPED.test(typed)) && Number.isFinite(Number(plain))) return { value: Number(plain) };
  if (!COMMA.test(typed)) return { problem: "That is not a number: write 1250 or 12.5." };
  const decimal = Number(typed.replace(/[\s'_]/g, "").replace(",", "."));
  return { problem: `“${typed}” can mean ${decimal} or ${Number(plain)}: write one of these.` };
}

/** The number in a field; null where there is none, and the page says why. */
export function numberIn(input) {
  const { value = null, problem } = number(input.value);
  input.toggleAttribute("aria-invalid", value === null);
  if (problem) toast(problem, "bad");
  return value;
}
