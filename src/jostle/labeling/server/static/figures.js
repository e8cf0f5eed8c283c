// Figures in words.

import { count, percent } from "./dom.js";

const rounded = (value, digits = 3) => value.toLocaleString("en", { maximumSignificantDigits: Math.max(digits, 2) });

/** Words that begin a sentence. */
export const capital = (words) => words[0].toUpperCase() + words.slice(1);

/** How a measure is written: an accuracy in percent, an error as a number. */
export const inUnit = ({ measure }) => (measure === "accuracy" ? percent : rounded);

/** The bound that matters, such as `at least 91.2 % right`. */
export const inBounds = (found) => (found.measure === "accuracy" ? `at least ${inUnit(found)(found.low)} right` : `error at most ${inUnit(found)(found.high)}`);

/** What the background does, such as `encoding 1,200 of 10,000`. */
export const doing = ({ doing: what, done, of, seconds_left: left }) =>
  of > 1 ? `${what} ${count(done)} of ${count(of)}${left > 45 ? `, about ${count(Math.ceil(left / 60))} min left` : ""}` : what;
