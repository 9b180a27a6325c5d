// What was found of a run's clients: who is like whom, how often each was picked, how it is served.

import { get } from './api.js';
import { h, replace } from './dom.js';
import { number, percent } from './format.js';
import { heatMap } from './heatmap.js';
import { bars } from './parts.js';

const MOST = 60; // bars before the rest is folded away

export class Findings {
  constructor(run) {
    this.run = run;
    this.element = h('div', { class: 'findings' });
    this.closing = [];
  }

  async load(about) {
    const found = await get(`/api/runs/${this.run}/arrays`);
    this.close();
    const names = about.names,
      parts = [];
    const groups = found.arrays.groups ?? about.groups;
    const similarity = found.arrays.similarity;
    if (similarity?.[0]?.length === similarity?.length && similarity?.length > 1) {
      const map = heatMap('Similarity of clients’ updates', similarity, names, groups);
      this.closing.push(map.close);
      parts.push(map.element);
    }
    const rows = (values) => names.map((one, at) => ({ name: one, value: values[at] }));
    const wanted = found.counts.wanted;
    if (wanted && new Set(wanted).size > 1)
      parts.push(folded('How often each client was wanted', rows(wanted), number));
    for (const [key, values] of Object.entries(found.clientMetrics)) {
      const words = /accuracy/.test(key) ? (value) => percent(value, 1) : number;
      const most = /accuracy/.test(key) ? 1 : null;
      parts.push(folded(`By client: ${key.replaceAll('_', ' ')}`, rows(values), words, most));
    }
    if (found.arrays.shapley?.length === names.length) {
      parts.push(folded('Shapley values', rows(found.arrays.shapley), number));
    }
    replace(this.element, parts);
  }

  close() {
    for (const one of this.closing) one();
    this.closing = [];
  }
}

function folded(title, rows, words, most = null) {
  const known = rows.filter((row) => row.value !== null && row.value !== undefined);
  const first = bars(title, known.slice(0, MOST), {
    words,
    most: most ?? Math.max(...known.map((row) => row.value)),
  });
  const rest = known.slice(MOST);
  return h(
    'section',
    { class: 'panel' },
    h('h2', {}, title),
    first,
    rest.length > 0 &&
      h(
        'details',
        {},
        h('summary', {}, `${rest.length} more`),
        bars(title, rest, { words, most: most ?? Math.max(...known.map((row) => row.value)) }),
      ),
  );
}
