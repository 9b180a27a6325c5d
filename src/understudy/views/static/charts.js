// Curves over rounds, by uPlot. A canvas tells a screen reader nothing, so each has its last values
// as words.

import uPlot from './vendor/uplot/uPlot.esm.js';
import { h } from './dom.js';
import { number } from './format.js';

// Okabe and Ito's, a wine red and a grey; then the same with dashes.
const COLOURS = ['#0072B2', '#E69F00', '#009E73', '#CC79A7', '#D55E00', '#56B4E9', '#882255', '#6B7280'];
const DARK = ['#4C9FD6', '#E69F00', '#1FC79A', '#CC79A7', '#F0803C', '#9AD3F5', '#C9548F', '#9AA4B2'];

export function style(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

export function axis(options = {}) {
  return {
    stroke: () => style('--quiet'),
    grid: { stroke: () => style('--line'), width: 1 },
    ticks: { stroke: () => style('--line'), width: 1 },
    font: '12px system-ui, sans-serif',
    ...options,
  };
}

// Rounds are kept from 0 on, and people count them from 1: ticks are round numbers of theirs.
export function roundAxis(options = {}) {
  return axis({
    splits: (_, index, from, to, step) => {
      const found = [],
        by = Math.max(1, Math.round(step));
      for (let t = Math.ceil((from + 1) / by) * by - 1; t <= to; t += by) found.push(t);
      return found;
    },
    values: (_, ticks) => ticks.map((t) => t + 1),
    ...options,
  });
}

// Draws again in other colours, and as wide as there is room.
export function kept(plot, place, height) {
  const themed = () => plot.redraw(false);
  addEventListener('themed', themed);
  const watching = new ResizeObserver(() => {
    const width = place.clientWidth;
    if (width && width !== plot.width) plot.setSize({ width, height: height(width) });
  });
  watching.observe(place);
  return () => {
    removeEventListener('themed', themed);
    watching.disconnect();
    plot.destroy();
  };
}

// series: {label, x, y, main, colour}; x are rounds from 0 on, people count from 1.
export class Chart {
  constructor(title, { height = 240, sync = null, words = number } = {}) {
    this.title = title;
    this.height = height;
    this.sync = sync;
    this.words = words;
    this.place = h('div', { class: 'plot' });
    this.spoken = h('p', { class: 'unseen' });
    this.element = h('figure', { class: 'chart' }, h('figcaption', {}, title), this.place, this.spoken);
    this.names = '';
  }

  set(series, isDark) {
    const shown = series.map(known);
    const data = uPlot.join(shown.map((one) => [one.x, one.y]));
    this.spoken.textContent = `${this.title}: ${shown.map((one) => `${one.label} ${one.y.length ? this.words(one.y.at(-1)) : 'nothing yet'}`).join('; ')}`;
    const names = shown.map((one) => one.label).join('\n');
    if (this.plot && names === this.names) {
      this.plot.setData(data);
      this.last(data);
      return;
    }
    this.close();
    this.names = names;
    const colours = () => (isDark() ? DARK : COLOURS);
    const options = {
      width: this.place.clientWidth || 600,
      height: this.height,
      scales: { x: { time: false } },
      axes: [roundAxis(), axis({ size: 56 })],
      cursor: { sync: this.sync ? { key: this.sync } : undefined, drag: { x: true, y: false } },
      legend: { live: true },
      hooks: { ready: [(plot) => requestAnimationFrame(() => plot === this.plot && this.last(plot.data))] },
      series: [
        { label: 'round', value: (_, t) => (t === null ? '–' : t + 1) },
        ...shown.map((one) => ({
          label: one.label,
          spanGaps: true,
          width: one.main ? 2.5 : 1.25,
          stroke: () => colours()[one.colour % COLOURS.length],
          dash: one.colour >= COLOURS.length ? [6, 4] : undefined,
          points: { show: one.x.length < 40 ? undefined : false },
          alpha: one.main ? 1 : 0.75,
          value: (_, value) => (value === null || value === undefined ? '–' : this.words(value)),
        })),
      ],
    };
    this.plot = new uPlot(options, data, this.place);
    this.stop = kept(this.plot, this.place, () => this.height);
    this.last(data);
  }

  // The legend has the last values until somebody points at others.
  last(data) {
    if (data[0].length && !(this.plot.cursor.left >= 0)) this.plot.setLegend({ idx: data[0].length - 1 });
  }

  close() {
    this.stop?.();
    this.plot = this.stop = null;
  }
}

// Rounds in which something was measured: in the others it is NaN.
function known(one) {
  const x = [],
    y = [];
  for (let at = 0; at < one.x.length; at++) {
    if (Number.isFinite(one.y[at])) {
      x.push(one.x[at]);
      y.push(one.y[at]);
    }
  }
  return { ...one, x, y };
}
