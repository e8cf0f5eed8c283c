// The curve over rounds, drawn here: the audit's estimate with its interval, and the goal.

import { h, percent, s } from "./dom.js";

const HEIGHT = 260;
const EDGE = { top: 16, right: 20, bottom: 44, left: 54 };

/** A drawing of points {trained, estimate, low, high}; with words for who cannot see it. */
export function curve(points, goal, show = percent, name = "accuracy", width = 640) {
  if (!points.length) return h("p", { class: "empty" }, "The curve begins when a model has met its first audit answers.");
  const right = width - EDGE.right;
  const x = scale([0, ...points.map(({ trained }) => trained)], EDGE.left, right, true);
  const bounds = [...points.flatMap(({ estimate, low, high }) => [estimate, low, high]), goal ?? NaN].filter(Number.isFinite);
  const y = scale([...ends(bounds, name), ...bounds], HEIGHT - EDGE.bottom, EDGE.top);
  const at = ({ trained, estimate }) => `${x(trained)},${y(estimate)}`;
  const last = points.at(-1);
  const title = `${name} over answers: ${show(last.estimate)} after ${last.trained}`;
  return s(
    "svg",
    { class: "curve", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": title },
    y.ticks.map((tick) => rule(y(tick), show(tick, 0), right)),
    x.ticks.map((tick) => s("text", { x: x(tick), y: HEIGHT - 24, "text-anchor": "middle" }, tick.toLocaleString("en"))),
    s("text", { x: right, y: HEIGHT - 5, "text-anchor": "end" }, "answers learned from"),
    s("path", { class: "band", d: band(points, x, y) }),
    goal !== null && s("line", { class: "goal", x1: EDGE.left, x2: right, y1: y(goal), y2: y(goal) }),
    s("polyline", { class: "stroke", points: points.map(at).join(" ") }),
    points.map((each) => point(each, x, y, show)),
    goal !== null && s("text", { class: "goal", x: EDGE.left + 8, y: y(goal) - 6 }, `goal ${show(goal, 0)}`), // curves end near it
  );
}

/** Where the axis begins and ends: an error at 0; an accuracy at 0 or at one half, and at 1. */
function ends(bounds, name) {
  if (name !== "accuracy") return [0];
  return [Math.min(...bounds) < 0.5 ? 0 : 0.5, 1];
}

function rule(height, words, right) {
  return s(
    "g",
    {},
    s("line", { class: "rule", x1: EDGE.left, x2: right, y1: height, y2: height }),
    s("text", { x: EDGE.left - 8, y: height + 4, "text-anchor": "end" }, words),
  );
}

function point({ trained, estimate, low, high }, x, y, show) {
  const words = `${trained} answers: ${show(estimate)} (${show(low)} to ${show(high)})`;
  return s("circle", { class: "point", cx: x(trained), cy: y(estimate), r: 3.5 }, s("title", {}, words));
}

function band(points, x, y) {
  const upper = points.map(({ trained, high }) => `${x(trained)},${y(high)}`);
  const lower = points.map(({ trained, low }) => `${x(trained)},${y(low)}`).reverse();
  return `M${[...upper, ...lower].join("L")}Z`;
}

/** Values to places, with round ticks. */
function scale(values, from, to, whole = false) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const [low, high] = most > least ? [least, most] : [least, least + 1];
  const place = (value) => Math.round(10 * (from + ((value - low) / (high - low)) * (to - from))) / 10;
  const step = roundStep((high - low) / 5, whole);
  place.ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step) place.ticks.push(Number(tick.toPrecision(10)));
  return place;
}

function roundStep(rough, whole) {
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((each) => each * power >= rough) * power;
  return whole ? Math.max(1, step) : step;
}
