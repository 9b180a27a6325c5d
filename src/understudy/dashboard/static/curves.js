// Numbers over rounds: accuracy and loss with the study's other strategies behind them, and what
// the parts tell of themselves.

import { get } from './api.js';
import { isDark } from './cells.js';
import { Chart } from './charts.js';
import { h, replace } from './dom.js';
import { number, percent } from './format.js';

const MEASURED = 'metric ';
const MOST_BESIDE = 7; // with the run itself as many as there are colours
const MOST_MEASURED = 2; // charts above the map
const OTHERS = [
  // title, columns, words
  [
    'Clients by round',
    [
      ['came', 'came'],
      ['absent, represented', 'represented'],
      ['represented by nobody', 'left out'],
    ],
  ],
  [
    'Rounds since clients were last heard',
    [
      ['mean', 'age, mean'],
      ['largest', 'age, largest'],
    ],
  ],
  ['Error of stand-ins (oracle)', [['mean ‖stand-in − true update‖²', 'substitution error']]],
];

export class Curves {
  constructor(run) {
    this.run = run;
    this.runs = new Map(); // id → {label, n, epoch, columns}
    this.charts = new Map();
    this.element = h('div', { class: 'charts' });
    this.below = h('div', { class: 'charts' });
    this.n = 0;
  }

  async load(about) {
    this.about = about;
    const beside = about.siblings.slice(0, MOST_BESIDE);
    this.runs.set(this.run, { label: about.strategy, n: 0, epoch: 0, columns: {} });
    await this.read(this.run);
    this.draw();
    // the others come after: the run itself is what was asked for
    for (const one of beside) this.runs.set(one.id, { label: one.strategy, n: 0, epoch: 0, columns: {} });
    Promise.all(beside.map((one) => this.read(one.id).catch(() => {}))).then(() => this.draw());
  }

  async more() {
    await this.read(this.run);
    this.draw();
  }

  // From the last round that is here; from the first where the run began again.
  async read(id) {
    const one = this.runs.get(id);
    const found = await get(`/api/runs/${id}/columns`, { since: one.n, epoch: one.epoch });
    if (found.first === 0) one.columns = {};
    const before = found.first;
    const added = found.arrays.t.length;
    const length = one.columns.t?.length ?? 0;
    for (const [key, values] of Object.entries(found.arrays)) {
      const column = new Float64Array(length + added).fill(NaN);
      if (one.columns[key]) column.set(one.columns[key]);
      column.set(values, length);
      one.columns[key] = column;
    }
    for (const [key, values] of Object.entries(one.columns)) {
      // a measure that is new, or has ended
      if (values.length < length + added) {
        const column = new Float64Array(length + added).fill(NaN);
        column.set(values);
        one.columns[key] = column;
      }
    }
    one.n = found.n;
    one.epoch = found.epoch;
    if (id === this.run) this.n = found.n;
    return before;
  }

  draw() {
    const own = this.runs.get(this.run).columns;
    const names = Object.keys(own)
      .filter((key) => key.startsWith(MEASURED))
      .sort(byWeight);
    const wanted = [
      ...names
        .slice(0, 6)
        .map((key) => [
          this.words(key),
          [...this.runs].map(([id, one]) => series(one, key, one.label, id === this.run)).filter(Boolean),
          key,
        ]),
      ...OTHERS.map(([title, parts]) => [
        title,
        parts.map(([label, key]) => series(this.runs.get(this.run), key, label, true)).filter(Boolean),
        '',
      ]),
    ].filter(([, lines]) => lines.length && lines.some((line) => line.y.some(Number.isFinite)));
    for (const [title, lines, key] of wanted) {
      let chart = this.charts.get(title);
      if (!chart) {
        const words = /accuracy|auc|f1/.test(key) ? (value) => percent(value, 1) : number;
        chart = new Chart(title, { sync: 'rounds', words });
        this.charts.set(title, chart);
        (this.charts.size <= MOST_MEASURED && key ? this.element : this.below).append(chart.element);
      }
      // the run itself last, above the others
      chart.set(
        lines.map((line, at) => ({ ...line, colour: at })).sort((a, b) => a.main - b.main),
        isDark,
      );
    }
    if (!wanted.length && !this.charts.size)
      replace(this.element, h('p', { class: 'quiet' }, 'No round has been played yet.'));
  }

  words(key) {
    const words = this.about.measures?.[key] ?? key.slice(MEASURED.length).replaceAll('_', ' ');
    return words.slice(0, 1).toUpperCase() + words.slice(1);
  }

  close() {
    for (const chart of this.charts.values()) chart.close();
  }
}

function series(one, key, label, main) {
  const y = one.columns[key];
  return y ? { label, x: one.columns.t, y, main } : null;
}

// Accuracy, then loss, then the others by their names.
function byWeight(a, b) {
  const weight = (key) =>
    (key.endsWith('accuracy') ? 0 : key.endsWith('loss') ? 1 : 2) + (key.includes('test_') ? 0 : 0.5);
  return weight(a) - weight(b) || a.localeCompare(b);
}
