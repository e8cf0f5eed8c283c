// A picture to look at closely: enlarged, moved, brighter or with more contrast.

import { h } from "./dom.js";
import { pictureAt } from "./server.js";

const TINY = 96; // pixels of the longer side up to which single pixels are shown, each as a square of the same size
const LITTLE = 480; // and up to which a picture is shown larger than it is, smoothly
const WIDEST = { tiny: 512, little: 640 }; // CSS pixels to which these are enlarged at first
const PIXELS = 4; // a pixel that is larger than this on the screen is shown as a square, when somebody has zoomed in
const STEP = 1.4; // of one key or notch
const CLOSER = 2.5; // by which Z enlarges, unless the window has room for more
const MOST = 40; // pixels of the screen for one of the picture
const PAN = 80; // CSS pixels of one key
const NARROWEST = 200; // CSS pixels of the window below which there is no overview

/** How pictures are shown from now on: kept from example to example. */
export const look = { brightness: 1, contrast: 1, stretch: false };

/** The address of a picture as it is to be shown. */
export const lookAt = (url) => pictureAt(url, look.stretch && "stretch");

export class Viewer {
  /** Show an image, which may still be loading, in `frame`. */
  constructor(image) {
    this.image = image;
    this.zoom = 1;
    this.x = this.y = 0;
    this.fingers = new Map();
    this.view = h("div", { class: "seen-part" });
    this.overview = h("div", { class: "overview", hidden: true, "aria-hidden": "true" }, this.view);
    this.frame = h("figure", { class: "picture" }, image, this.overview);
    this.listen();
    new ResizeObserver(() => this.place()).observe(this.frame);
    image.addEventListener("load", () => this.place());
    this.light();
  }

  listen() {
    const at = (event) => {
      const { left, top } = this.frame.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };
    this.frame.addEventListener("wheel", (event) => this.wheel(event, at(event)), { passive: false });
    this.frame.addEventListener("dblclick", (event) => this.toggle(at(event)));
    this.frame.addEventListener("pointerdown", (event) => {
      this.fingers.set(event.pointerId, at(event));
      this.frame.setPointerCapture(event.pointerId);
    });
    this.frame.addEventListener("pointermove", (event) => this.moved(event.pointerId, at(event)));
    for (const end of ["pointerup", "pointercancel"]) this.frame.addEventListener(end, (event) => this.fingers.delete(event.pointerId));
  }

  /** A wheel enlarges, unless it is needed to scroll the page. */
  wheel(event, at) {
    const { scrollHeight, clientHeight } = document.documentElement;
    if (!event.ctrlKey && scrollHeight > clientHeight && !this.frame.closest("dialog")) return;
    event.preventDefault();
    this.scale(Math.exp(-event.deltaY / (event.ctrlKey ? 100 : 300)), at);
  }

  moved(finger, to) {
    const from = this.fingers.get(finger);
    if (!from) return;
    const other = [...this.fingers].find(([id]) => id !== finger)?.[1];
    this.fingers.set(finger, to);
    if (other) {
      const apart = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]) || 1;
      this.scale(apart(to) / apart(from), [(to[0] + other[0]) / 2, (to[1] + other[1]) / 2]);
    }
    this.pan((to[0] - from[0]) / this.fingers.size, (to[1] - from[1]) / this.fingers.size);
  }

  /** A key that enlarges or moves the picture. True if it did. */
  key(key) {
    const pans = { ArrowLeft: [PAN, 0], ArrowRight: [-PAN, 0], ArrowUp: [0, PAN], ArrowDown: [0, -PAN] };
    if (key === "+" || key === "=") this.scale(STEP);
    else if (key === "-") this.scale(1 / STEP);
    else if (key in pans && this.zoom > 1) this.pan(...pans[key]);
    else return false;
    return true;
  }

  /** Enlarge, or show the whole again. */
  toggle(at = this.middle()) {
    const { width, height } = this.room();
    const { naturalWidth, naturalHeight } = this.image;
    const filled = Math.max(width / naturalWidth, height / naturalHeight) / this.base();
    this.scale(this.zoom > 1 ? 0 : Math.max(CLOSER, filled), at);
  }

  /** Enlarge by a factor; the point that is looked at stays where it is. */
  scale(by, [x, y] = this.middle()) {
    if (!this.image.naturalWidth) return;
    const before = this.size();
    const most = Math.max(CLOSER, MOST / devicePixelRatio / this.base());
    this.zoom = Math.min(Math.max(this.zoom * by, 1), most);
    const grown = this.size() / before;
    this.x = x - (x - this.x) * grown;
    this.y = y - (y - this.y) * grown;
    this.place();
  }

  pan(x, y) {
    this.x += x;
    this.y += y;
    this.place();
  }

  room() {
    return { width: this.frame.clientWidth, height: this.frame.clientHeight };
  }

  middle() {
    const { width, height } = this.room();
    return [width / 2, height / 2];
  }

  get longer() {
    return Math.max(this.image.naturalWidth, this.image.naturalHeight);
  }

  /** CSS pixels for one of the picture when the whole of it is shown. */
  base() {
    const { width, height } = this.room();
    const fits = Math.min(width / this.image.naturalWidth, height / this.image.naturalHeight);
    if (this.longer > LITTLE) return Math.min(fits, 1);
    if (this.longer > TINY) return Math.min(fits, WIDEST.little / this.longer);
    const whole = Math.floor(Math.min(fits, WIDEST.tiny / this.longer) * devicePixelRatio);
    return whole >= 1 ? whole / devicePixelRatio : fits;
  }

  /** CSS pixels for one of the picture; squares have a whole number of the screen's. */
  size() {
    const exact = this.base() * this.zoom;
    return this.squares(exact) && exact * devicePixelRatio >= 1 ? Math.round(exact * devicePixelRatio) / devicePixelRatio : exact;
  }

  squares(size) {
    return this.longer <= TINY || (this.zoom > 1 && size * devicePixelRatio >= PIXELS);
  }

  /** Put the picture where it belongs: in the middle, or so that no part of the window stays empty. */
  place() {
    const { naturalWidth, naturalHeight, style } = this.image;
    const { width, height } = this.room();
    if (!naturalWidth || !width) return;
    const size = this.size();
    const within = (at, shown, room) => Math.round(shown <= room ? (room - shown) / 2 : Math.min(0, Math.max(room - shown, at)));
    this.x = within(this.x, size * naturalWidth, width);
    this.y = within(this.y, size * naturalHeight, height);
    style.width = `${size * naturalWidth}px`;
    style.height = `${size * naturalHeight}px`;
    style.transform = `translate(${this.x}px, ${this.y}px)`;
    this.image.classList.toggle("squares", this.squares(size));
    this.frame.dataset.zoom = this.zoom.toFixed(2);
    this.survey(size, width, height);
  }

  /** Show which part of the picture is in the window. */
  survey(size, width, height) {
    const { naturalWidth, naturalHeight, src } = this.image;
    this.overview.hidden = this.zoom === 1 || width < NARROWEST || height < NARROWEST;
    if (this.overview.hidden) return;
    if (this.overview.children.length === 1) this.overview.prepend(h("img", { src, alt: "" }));
    const share = (part) => `${100 * Math.min(1, Math.max(0, part))}%`;
    Object.assign(this.view.style, {
      left: share(-this.x / (size * naturalWidth)),
      top: share(-this.y / (size * naturalHeight)),
      width: share(width / (size * naturalWidth)),
      height: share(height / (size * naturalHeight)),
    });
  }

  /** Apply brightness and contrast. */
  light() {
    const plain = look.brightness === 1 && look.contrast === 1;
    this.image.style.filter = plain ? "" : `brightness(${look.brightness}) contrast(${look.contrast})`;
  }
}

/** Sliders for brightness and contrast; `lit()` is called when they change, `fetched()` when the server has to. */
export function lights(lit, fetched) {
  const slider = (name, words) => {
    const input = h("input", { type: "range", min: -2, max: 2, step: 0.05, value: Math.log2(look[name]) });
    input.addEventListener("input", () => {
      look[name] = 2 ** Number(input.value);
      lit();
    });
    return h("label", {}, words, input);
  };
  const stretch = h("input", { type: "checkbox", checked: look.stretch });
  stretch.addEventListener("change", () => {
    look.stretch = stretch.checked;
    fetched();
  });
  const panel = h("div", { class: "lights", role: "group", "aria-label": "Brightness and contrast" });
  const fill = () => panel.replaceChildren(slider("brightness", "Brightness"), slider("contrast", "Contrast"), h("label", {}, stretch, "Full range"), reset);
  const reset = h("button", { type: "button", class: "quiet" }, "As it is");
  reset.addEventListener("click", () => {
    const refetch = look.stretch;
    Object.assign(look, { brightness: 1, contrast: 1, stretch: false });
    stretch.checked = false;
    fill();
    lit();
    if (refetch) fetched();
  });
  fill();
  return panel;
}
