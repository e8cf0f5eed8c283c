// How an example looks: a picture, a text or a row of a table.

import { h } from "./dom.js";
import { pictureAt } from "./server.js";
import { lights, lookAt, Viewer } from "./viewer.js";

const CUT = 280; // characters of a text in a tile

/** An example in full; `question.viewer` is what enlarges a picture. */
export function large(question) {
  const { content } = question;
  if (content.kind === "gone") return h("p", { class: "broken" }, "no longer in the data");
  if (content.kind === "image") return picture(question);
  if (content.kind === "text") return h("article", { class: "words" }, content.texts.map((text) => h("p", { dir: "auto" }, text)));
  return h("dl", { class: "row" }, pairs(content.fields));
}

/** An example in small, for grids and lists. */
export function small(question) {
  const { content } = question;
  if (content.kind === "gone") return h("p", { class: "broken" }, "no longer in the data");
  if (content.kind === "image") return loading(pictureAt(content.url, "small"), question.name, true);
  if (content.kind === "text") return h("span", { class: "words", dir: "auto" }, cut(content.texts.join(" / ")));
  return h("dl", { class: "row" }, pairs(content.fields.slice(0, 4)));
}

/** Open an example in a large window of its own, from a grid or a list; the promise ends when it is closed. */
export function closeUp({ key, name, content }) {
  const question = { key, name, content };
  const stage = h("div", { class: "stage", role: "region", tabindex: 0, "aria-label": name });
  const fill = () => stage.replaceChildren(large(question));
  const refetch = () => {
    question.loaded = null;
    fill();
  };
  const close = h("button", { type: "button", class: "done", onclick: () => box.close() }, "Close");
  const panel = content.kind === "image" ? lights(() => question.viewer?.light(), refetch) : null;
  const box = h("dialog", { class: "closeup", "aria-label": name }, stage, h("div", { class: "foot" }, panel, h("b", {}, name), close));
  box.addEventListener("keydown", (event) => {
    const toggles = event.key.toLowerCase() === "z" && !event.target.closest("input");
    if (toggles) question.viewer?.toggle();
    if (toggles || (!event.target.closest("input") && question.viewer?.key(event.key))) event.preventDefault();
  });
  document.body.append(box);
  fill();
  box.showModal();
  stage.focus();
  return new Promise((closed) => {
    box.addEventListener("close", () => {
      box.remove();
      closed();
    });
  });
}

/** Load what an example needs, and decode it, before it is shown. */
export function ahead(question) {
  if (question.content.kind !== "image" || question.loaded) return;
  question.loaded = loading(lookAt(question.content.url), question.name);
  question.loaded.decode().catch(() => {}); // a broken picture says so when it is shown
}

/** The image of a question, if it has one; it may still be loading. */
export const imageOf = ({ content, loaded }) => (content.kind === "image" ? loaded : null);

/** Whether an image can be seen; a broken one never can. */
export const isLoaded = (image) => image.complete && image.naturalWidth > 0;

function picture(question) {
  ahead(question);
  const { loaded } = question;
  if (loaded.complete && !loaded.naturalWidth) return broken(); // it failed before it was shown
  question.viewer = new Viewer(loaded);
  return question.viewer.frame;
}

function loading(address, name, lazy = false) {
  const image = h("img", { alt: name, draggable: "false", loading: lazy && "lazy" });
  image.addEventListener("error", () => image.replaceWith(broken()));
  image.src = address; // last, as it begins the loading
  return image;
}

const broken = () => h("p", { class: "broken" }, h("b", {}, "This picture cannot be shown"), "Its file may be damaged, or the server away.");
const pairs = (fields) => fields.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));
const cut = (text) => (text.length <= CUT ? text : `${text.slice(0, CUT - 1).trimEnd()}…`);
