// The cells of a map as an image: a pixel for each, or for several that the server has reduced.

import { ALL_CLASSES, colourOf, palette, wordsOfClass } from './cells.js';
import { style } from './charts.js';
import { h } from './dom.js';

// From what the server answered: `first`, `top`: its corner; `rounds`, `rows`: cells of a pixel.
export function imageOf({ arrays, shapes, ...head }) {
  return { ...head, cells: arrays.cells, wide: shapes.cells[0], high: shapes.cells[1] };
}

// An answer with later rounds, put behind those that are there.
export function grown(base, found) {
  const cells = new Uint8Array(base.cells.length + found.arrays.cells.length);
  cells.set(base.cells);
  cells.set(found.arrays.cells, base.cells.length);
  const shape = [cells.length / Math.max(1, base.clients), base.clients];
  return {
    ...found,
    first: base.first,
    arrays: { cells, order: found.arrays.order },
    shapes: { cells: shape },
  };
}

// Paints its canvas; which of the 256 cells there are.
export function painted(image, classify) {
  const { cells, wide, high } = image;
  const colours = palette(classify);
  const seen = new Uint8Array(256);
  image.canvas ??= document.createElement('canvas');
  image.canvas.width = Math.max(1, wide);
  image.canvas.height = Math.max(1, high);
  if (!wide || !high) return seen;
  const context = image.canvas.getContext('2d');
  const pixels = context.createImageData(wide, high);
  const words = new Uint32Array(pixels.data.buffer);
  for (let t = 0; t < wide; t++) {
    for (let row = 0; row < high; row++) {
      const cell = cells[t * high + row];
      seen[cell] = 1;
      words[row * wide + t] = colours[cell];
    }
  }
  context.putImageData(pixels, 0, 0);
  return seen;
}

// What the colours mean: of those that are there.
export function legend(seen, classify) {
  const found = new Set();
  seen.forEach((is, cell) => is && found.add(classify(cell)));
  return ALL_CLASSES.filter((kind) => found.has(kind) && kind !== 'absent').map((kind) => {
    const swatch = h('span', { class: 'swatch', 'aria-hidden': 'true' });
    swatch.style.background = colourOf(kind);
    return h('li', {}, swatch, wordsOfClass(kind));
  });
}

export function covers(image, { t, row }) {
  const right = image.first + image.wide * image.rounds,
    bottom = image.top + image.high * image.rows;
  return t >= image.first && t < right && row >= image.top && row < bottom;
}

export function cellOf(image, { t, row }) {
  const x = Math.floor((t - image.first) / image.rounds),
    y = Math.floor((row - image.top) / image.rows);
  return image.cells[x * image.high + y];
}

function clipped({ ctx, bbox }, draw) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  draw(ctx);
  ctx.restore();
}

// Where its cells belong in a plot, whatever part of them is seen.
export function drawn(plot, image) {
  const x = (t) => plot.valToPos(t - 0.5, 'x', true),
    y = (row) => plot.valToPos(row - 0.5, 'y', true);
  const left = x(image.first),
    right = x(image.first + image.wide * image.rounds);
  const top = y(image.top),
    bottom = y(image.top + image.high * image.rows);
  clipped(plot, (context) => {
    context.imageSmoothingEnabled = false;
    context.drawImage(image.canvas, left, top, right - left, bottom - top);
  });
}

// Frames around (round, first row, last row).
export function outlined(plot, boxes) {
  clipped(plot, (context) => {
    context.strokeStyle = style('--text');
    context.lineWidth = 2 * devicePixelRatio;
    for (const [t, from, to] of boxes) {
      const x = plot.valToPos(t - 0.5, 'x', true),
        y = plot.valToPos(from - 0.5, 'y', true);
      const wide = plot.valToPos(t + 0.5, 'x', true) - x,
        high = plot.valToPos(to + 0.5, 'y', true) - y;
      context.strokeRect(x, y, Math.max(2, wide), high);
    }
  });
}
