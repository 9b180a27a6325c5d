// The attendance map: rounds × clients, one colour a cell. A pixel of an image is a cell; uPlot has
// the axes and the zoom, and the image is drawn below its grid, so that a zoom costs one drawImage.

import uPlot from './vendor/uplot/uPlot.esm.js';
import { classOf, wordsOf } from './cells.js';
import { axis, kept, roundAxis } from './charts.js';
import { h, replace } from './dom.js';
import { round } from './format.js';
import { cellOf, covers, drawn, grown, imageOf, legend, outlined, painted } from './mapimage.js';
import { ALL_ORDERS, pressed, toolbar } from './maptools.js';
import { fitted, zoomed } from './mapview.js';

const FINER = 200; // milliseconds after a zoom, before a finer image is asked for

// load(window) → a map's head with arrays; onRound(t, client) when a cell is chosen
export class AttendanceMap {
  constructor({ load, names, onRound, height = 420, orders = ALL_ORDERS }) {
    Object.assign(this, { load, names, onRound, height, orders });
    this.order = 'number';
    this.classify = classOf;
    this.at = { t: 0, row: 0 };
    this.place = h('div', {
      class: 'plot map',
      tabindex: '0',
      role: 'application',
      'aria-label':
        'Attendance map. Arrow keys move through rounds and clients, Enter opens the round, plus and minus zoom, 0 shows all.',
    });
    this.spoken = h(
      'p',
      { class: 'readout', role: 'status', 'aria-live': 'polite' },
      'Point at a cell, or use the arrow keys.',
    );
    this.legend = h('ul', { class: 'legend', 'aria-label': 'Colours' });
    this.tools = toolbar(this);
    this.element = h(
      'figure',
      { class: 'chart' },
      h('figcaption', {}, 'Attendance: rounds × clients'),
      this.tools,
      this.place,
      this.spoken,
      this.legend,
    );
    this.place.addEventListener('keydown', (event) => pressed(this, event));
    this.recolour = () => {
      this.base && this.paint(this.base);
      this.fine && this.paint(this.fine);
      this.show();
    };
    addEventListener('themed', this.recolour);
  }

  // -- data ----------------------------------------------------------------------------------------

  // As many cells as there are pixels; the server reduces what is more.
  size() {
    const wide = Math.max(200, Math.round((this.place.clientWidth || 600) * devicePixelRatio));
    return { columns: wide, rows: Math.round(this.height * devicePixelRatio) };
  }

  async refresh() {
    const found = await this.load({ ...this.size(), order: this.order });
    this.fine = null;
    this.take(found);
  }

  // What came since; everything where cells stand for several or the order may have changed.
  async more() {
    const base = this.base;
    const whole = base && base.rounds === 1 && base.rows === 1 && this.order === 'number';
    if (!whole) return this.refresh();
    const found = await this.load({ first: base.last, columns: 4000, rows: 4000, order: this.order });
    if (this.base !== base || (found.last === base.last && found.epoch === base.epoch)) return null;
    if (
      found.epoch !== base.epoch ||
      found.clients !== base.clients ||
      found.first !== base.last ||
      found.rounds > 1
    )
      return this.refresh();
    return this.take(grown(base, found));
  }

  take(found) {
    const wasAll = !this.base || this.isAll();
    this.base = imageOf(found);
    this.clients = found.arrays.order;
    this.paint(this.base);
    if (!this.plot) this.make();
    if (wasAll) this.all();
    else this.show();
    this.tell();
  }

  paint(image) {
    const seen = painted(image, this.classify);
    if (image === this.base) replace(this.legend, legend(seen, this.classify));
  }

  // -- the plot ------------------------------------------------------------------------------------

  make() {
    const name = (row) =>
      Number.isInteger(row) && row >= 0 && row < this.clients.length
        ? shortened(this.names()[this.clients[row]])
        : '';
    this.plot = new uPlot(
      {
        width: this.place.clientWidth || 600,
        height: this.height,
        scales: {
          x: { time: false, range: () => this.view.slice(0, 2) },
          y: { dir: -1, range: () => this.view.slice(2) },
        },
        axes: [
          roundAxis({ grid: { show: false } }),
          axis({ grid: { show: false }, size: () => this.margin(), values: (_, ticks) => ticks.map(name) }),
        ],
        legend: { show: false },
        cursor: { drag: { x: true, y: true, uni: 30, setScale: false }, points: { show: false } },
        series: [{}, { points: { show: false }, stroke: 'transparent' }],
        hooks: {
          drawClear: [(plot) => this.draw(plot)],
          draw: [(plot) => this.mark(plot)],
          setCursor: [(plot) => this.point(plot)],
          setSelect: [(plot) => this.select(plot)],
        },
      },
      [
        [0, 1],
        [null, null],
      ],
      this.place,
    );
    this.stop = kept(this.plot, this.place, () => this.height);
    const over = this.plot.over;
    let down = null;
    over.addEventListener('mousedown', (event) => {
      down = [event.clientX, event.clientY];
    });
    over.addEventListener('click', (event) => {
      if (down && Math.hypot(event.clientX - down[0], event.clientY - down[1]) < 4) this.open();
    });
    over.addEventListener('dblclick', () => this.all());
    // Only with Ctrl, as browsers zoom: without it the page scrolls.
    over.addEventListener(
      'wheel',
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(
          event.deltaY < 0 ? 0.8 : 1.25,
          this.plot.posToVal(event.offsetX, 'x'),
          this.plot.posToVal(event.offsetY, 'y'),
        );
      },
      { passive: false },
    );
  }

  // Room for the longest name beside the map, as far as names are shown.
  margin() {
    const longest = Math.max(
      2,
      ...[...this.names()].slice(0, 200).map((one) => Math.min(String(one).length, 12)),
    );
    return 22 + 7.5 * longest;
  }

  draw(plot) {
    for (const image of [this.base, this.fine]) {
      if (image?.wide && image.high) drawn(plot, image);
    }
  }

  mark(plot) {
    const boxes = [];
    if (this.chosen !== undefined) boxes.push([this.chosen, 0, this.base.clients - 1]);
    if (this.byKey) boxes.push([this.at.t, this.at.row, this.at.row]);
    if (boxes.length) outlined(plot, boxes);
  }

  // -- the view: [first round, last round, top row, bottom row], with half a cell around ---------------

  full() {
    return [-0.5, Math.max(1, this.base.n) - 0.5, -0.5, Math.max(1, this.base.clients) - 0.5];
  }

  isAll() {
    return !this.view || !this.shownAll || this.view.every((one, at) => one === this.shownAll[at]);
  }

  all() {
    this.shownAll = this.full();
    this.look(this.shownAll);
  }

  zoom(by, x = null, y = null) {
    this.look(zoomed(this.view, by, x, y));
  }

  look([a, b, c, d]) {
    const [, right, , bottom] = this.full();
    this.view = [...fitted(a, b, right), ...fitted(c, d, bottom)];
    this.fine = null;
    this.show();
    clearTimeout(this.timer);
    if (this.base.rounds > 1 || this.base.rows > 1) this.timer = setTimeout(() => this.refine(), FINER);
  }

  async refine() {
    if (this.isAll()) return;
    const [a, b, c, d] = this.view;
    const window = {
      first: Math.max(0, Math.floor(a)),
      last: Math.ceil(b) + 1,
      top: Math.max(0, Math.floor(c)),
      bottom: Math.ceil(d) + 1,
    };
    const view = this.view;
    const found = await this.load({ ...window, ...this.size(), order: this.order });
    if (view !== this.view) return;
    this.fine = imageOf(found);
    this.paint(this.fine);
    this.show();
  }

  show() {
    this.plot?.setData([
      [this.view[0], this.view[1]],
      [null, null],
    ]);
  }

  // -- pointing ------------------------------------------------------------------------------------

  point(plot) {
    const { left, top } = plot.cursor;
    if (left < 0 || this.byKey) return;
    this.at = { t: Math.round(plot.posToVal(left, 'x')), row: Math.round(plot.posToVal(top, 'y')) };
    this.tell();
  }

  select(plot) {
    const { left, top, width, height } = plot.select;
    if (!width && !height) return;
    const x = width ? [plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x')] : this.view.slice(0, 2);
    const y = height ? [plot.posToVal(top, 'y'), plot.posToVal(top + height, 'y')] : this.view.slice(2);
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.look([...x, ...y]);
  }

  cell() {
    const image = [this.fine, this.base].find((one) => one && covers(one, this.at));
    return image ? cellOf(image, this.at) : null;
  }

  tell() {
    const cell = this.cell();
    if (cell === null || cell === undefined) return;
    replace(
      this.spoken,
      `${round(this.at.t)}, `,
      h('bdi', {}, called(this.names()[this.clients[this.at.row]])),
      `: ${wordsOf(cell)}`,
    );
  }

  open() {
    if (this.cell() === null) return;
    this.choose(this.at.t);
    this.onRound(this.at.t, this.clients[this.at.row]);
  }

  choose(t) {
    this.chosen = t;
    if (this.plot && this.base) this.show();
  }

  close() {
    clearTimeout(this.timer);
    removeEventListener('themed', this.recolour);
    this.stop?.();
  }
}

// Of clients without names, only numbers are known.
function called(words) {
  return /^\d+$/.test(words) ? `client ${words}` : shortened(words, 60);
}

function shortened(words, most = 12) {
  const text = String(words ?? '');
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
