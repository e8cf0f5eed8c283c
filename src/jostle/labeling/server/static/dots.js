// Dots on a canvas: a hundred thousand of them move with the mouse, as each is a few pixels written by hand.

const CLOSE = 9; // pixels within which a dot is under the mouse
const ZOOM = { least: 0.6, most: 400 };
const MARGIN = 24; // pixels around the whole map
const PLAIN = "#9aa0a8"; // a dot without an answer or a prediction
const PALETTE = ["#d1495b", "#2a7fba", "#3f9b57", "#e0a526", "#8f5bb5", "#e5793a", "#1fa3a3", "#b5577f", "#7d8b2f", "#5b6fd6", "#a0673c", "#4d5a66"];

/** The color of the class at a place; after a dozen they repeat, lighter. */
export function colorOf(place) {
  if (place < PALETTE.length) return PALETTE[place];
  return `hsl(${(place * 137.5) % 360} 45% ${place % 2 ? 45 : 62}%)`;
}

/** A shade of doubt, 0 to 1. */
export const shadeOf = (doubt) => `hsl(${200 - 185 * doubt} ${35 + 50 * doubt}% ${58 - 6 * doubt}%)`;

export class Dots {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.points = new Float32Array(0);
    this.colors = new Uint8Array(0);
    this.view = null; // scale, x and y: pixels = map * scale + x
  }

  get count() {
    return this.points.length / 2;
  }

  /** Show these positions, all of them at first. */
  place(points) {
    this.points = points;
    this.fit();
  }

  /** Color dots: a byte for each, and what bytes mean as css colors. */
  color(bytes, meaning) {
    this.colors = bytes;
    this.palette = new Uint32Array(256).fill(packed(PLAIN));
    meaning.forEach((css, byte) => (this.palette[byte] = packed(css)));
    this.draw();
  }

  /** Follow the size of the element. */
  resize() {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.image = this.context.createImageData(this.canvas.width, this.canvas.height);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.ratio = ratio;
      if (this.count) this.fit();
    }
    this.ground = packed(getComputedStyle(this.canvas).backgroundColor);
    this.draw();
  }

  /** Show the whole map. */
  fit() {
    if (!this.pixels || !this.count) return;
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < this.points.length; i += 2) {
      left = Math.min(left, this.points[i]);
      right = Math.max(right, this.points[i]);
      top = Math.min(top, this.points[i + 1]);
      bottom = Math.max(bottom, this.points[i + 1]);
    }
    const { width, height } = this.canvas;
    const edge = MARGIN * this.ratio;
    const scale = Math.min((width - 2 * edge) / (right - left || 1), (height - 2 * edge) / (bottom - top || 1));
    this.whole = scale;
    this.view = { scale, x: width / 2 - (scale * (left + right)) / 2, y: height / 2 - (scale * (top + bottom)) / 2 };
    this.draw();
  }

  pan(dx, dy) {
    if (!this.view) return;
    this.view.x += dx * this.ratio;
    this.view.y += dy * this.ratio;
    this.draw();
  }

  /** Zoom around a place in css pixels. */
  zoom(factor, x, y) {
    if (!this.view) return;
    const scale = Math.min(Math.max(this.view.scale * factor, ZOOM.least * this.whole), ZOOM.most * this.whole);
    const [px, py] = [x * this.ratio, y * this.ratio];
    const moved = scale / this.view.scale;
    this.view = { scale, x: px - (px - this.view.x) * moved, y: py - (py - this.view.y) * moved };
    this.draw();
  }

  /** A place in css pixels as a place on the map. */
  where(x, y) {
    const { scale, x: left, y: top } = this.view;
    return [(x * this.ratio - left) / scale, (y * this.ratio - top) / scale];
  }

  /** The dot nearest to a place in css pixels; null where none is close. */
  at(x, y) {
    if (!this.view) return null;
    const [mx, my] = this.where(x, y);
    let found = null;
    let closest = ((CLOSE * this.ratio) / this.view.scale) ** 2;
    for (let i = 0; i < this.points.length; i += 2) {
      const gap = (this.points[i] - mx) ** 2 + (this.points[i + 1] - my) ** 2;
      if (gap < closest) [closest, found] = [gap, i / 2];
    }
    return found;
  }

  /** Draw at the next frame. */
  draw() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.paint();
    });
  }

  paint() {
    if (!this.pixels || !this.view) return;
    const { width, height } = this.canvas;
    const { points, colors, palette, pixels } = this;
    const { scale, x, y } = this.view;
    pixels.fill(this.ground);
    const { radius, offsets } = this.stamp();
    const edge = radius + 1;
    const none = packed(PLAIN);
    for (const plain of [true, false]) // colored dots lie above the others
      for (let i = 0, dot = 0; i < points.length; i += 2, dot++) {
        const byte = dot < colors.length ? colors[dot] : 255;
        if ((byte === 255) !== plain) continue;
        const px = (points[i] * scale + x) | 0;
        const py = (points[i + 1] * scale + y) | 0;
        if (px < edge || py < edge || px >= width - edge || py >= height - edge) continue;
        const color = palette ? palette[byte] : none;
        const at = py * width + px;
        for (let k = 0; k < offsets.length; k++) pixels[at + offsets[k]] = color;
      }
    this.context.putImageData(this.image, 0, 0);
    this.outline();
    this.painted?.();
  }

  /** The pixels of a dot: larger where there are few, or where somebody came closer. */
  stamp() {
    const near = Math.sqrt(this.view.scale / this.whole);
    const free = Math.sqrt((this.canvas.width * this.canvas.height) / (this.count * 40));
    const radius = Math.max(0, Math.min(Math.round(Math.min(free * near, 7 * this.ratio) / 2), Math.round(3.5 * this.ratio)));
    const { width } = this.canvas;
    if (this.stamped?.radius === radius && this.stamped.width === width) return this.stamped;
    const cells = [];
    for (let dy = -radius; dy <= radius; dy++)
      for (let dx = -radius; dx <= radius; dx++) if (dx * dx + dy * dy <= (radius + 0.3) ** 2) cells.push(dy * width + dx);
    this.stamped = { radius, width, offsets: Int32Array.from(cells) };
    return this.stamped;
  }

  /** Draw the region that was chosen, given in places on the map. */
  outline() {
    const { region, context } = this;
    if (!region?.length) return;
    const { scale, x, y } = this.view;
    context.beginPath();
    for (const [mx, my] of region) context.lineTo(mx * scale + x, my * scale + y);
    context.closePath();
    context.fillStyle = "rgb(229 121 58 / .14)";
    context.fill();
    context.strokeStyle = "#e5793a";
    context.lineWidth = 2 * this.ratio;
    context.stroke();
  }
}

const kept = new Map();
/** A css color as the bytes of a pixel. */
function packed(css) {
  if (!kept.has(css)) {
    const one = document.createElement("canvas").getContext("2d");
    one.fillStyle = css;
    one.fillRect(0, 0, 1, 1);
    const [r, g, b] = one.getImageData(0, 0, 1, 1).data;
    kept.set(css, new Uint32Array(new Uint8Array([r, g, b, 255]).buffer)[0]);
  }
  return kept.get(css);
}
