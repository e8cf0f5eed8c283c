// How an example looks: a picture, a text or a row of a table.

import { h } from "./dom.js";

const ENLARGED = { tiny: 96, little: 480 }; // pixels of the longer side up to which a picture is shown larger than it is
const CUT = 280; // characters of a text in a tile

/** An example in full. */
export function large(question) {
  const { content } = question;
  if (content.kind === "image") return h("figure", { class: "picture" }, picture(question));
  if (content.kind === "text") return h("article", { class: "words" }, content.texts.map((text) => h("p", { dir: "auto" }, text)));
  return h("dl", { class: "row" }, pairs(content.fields));
}

/** An example in small, for grids and lists. */
export function small(question) {
  const { content } = question;
  if (content.kind === "gone") return h("p", { class: "broken" }, "no longer in the data");
  if (content.kind === "image") return loading(`${content.url}?small=1`, question.name, true);
  if (content.kind === "text") return h("span", { class: "words", dir: "auto" }, cut(content.texts.join(" / ")));
  return h("dl", { class: "row" }, pairs(content.fields.slice(0, 4)));
}

/** Load what an example needs, and decode it, before it is shown. */
export function ahead(question) {
  if (question.content.kind !== "image" || question.loaded) return;
  question.loaded = loading(question.content.url, question.name);
  question.loaded.decode().catch(() => {}); // a broken picture says so when it is shown
}

/** The image of a question, if it has one; it may still be loading. */
export const imageOf = ({ content, loaded }) => (content.kind === "image" ? loaded : null);

/** Whether an image can be seen; a broken one never can. */
export const isLoaded = (image) => image.complete && image.naturalWidth > 0;

function picture({ content, name, loaded }) {
  if (loaded?.complete && !loaded.naturalWidth) return broken(); // it failed before it was shown
  return loaded ?? loading(content.url, name);
}

function loading(address, name, lazy = false) {
  const image = h("img", { alt: name, draggable: "false", loading: lazy && "lazy" });
  image.addEventListener("load", () => {
    const fitting = Object.entries(ENLARGED).find(([, most]) => Math.max(image.naturalWidth, image.naturalHeight) <= most);
    if (fitting) image.classList.add(fitting[0]);
  });
  image.addEventListener("error", () => image.replaceWith(broken()));
  image.src = address; // last, as it begins the loading
  return image;
}

const broken = () => h("p", { class: "broken" }, "This picture cannot be shown.");
const pairs = (fields) => fields.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));
const cut = (text) => (text.length <= CUT ? text : `${text.slice(0, CUT - 1).trimEnd()}…`);
