// The cast of a round: who represented whom, with what weight.

import { wordsOf } from './cells.js';
import { announce, button, h, name, replace, said, table } from './dom.js';
import { count, number, percent, round } from './format.js';
import { facts } from './parts.js';

const MOST = 200; // rows; the search finds the others

// load(t) → a round, or an error in words; onChosen(t) when one is shown; beside(t, by) → the round
// before or after it.
export class Cast {
  constructor({ load, onChosen, beside = (t, by) => t + by }) {
    Object.assign(this, { load, onChosen, beside });
    this.search = '';
    this.element = h('section', { class: 'cast', 'aria-label': 'Cast of a round', tabindex: '-1' });
  }

  async open(t, client = null, { focus = true } = {}) {
    this.t = t;
    const found = await this.load(t);
    if (this.t !== t) return;
    this.found = found;
    this.search = client === null || found.names.length <= MOST ? '' : found.names[client];
    this.draw(client);
    this.onChosen(t);
    if (focus) {
      this.element.scrollIntoView({ block: 'nearest' });
      this.element.focus({ preventScroll: true });
    }
    announce(`Cast of ${round(t)}`);
  }

  rows(client) {
    const { names, ids, source, coef, errors, cells } = this.found;
    const total = coef.reduce((sum, one) => sum + Math.abs(one), 0);
    const wanted = this.search.toLowerCase();
    const order = ids
      .map((_, at) => at)
      .filter((at) => names[ids[at]].toLowerCase().includes(wanted))
      .sort(
        (a, b) =>
          (source[a] === ids[a]) - (source[b] === ids[b]) ||
          ids[a] - ids[b] ||
          Math.abs(coef[b]) - Math.abs(coef[a]),
      );
    const hasErrors = errors.some((one) => one !== null);
    const rows = order
      .slice(0, MOST)
      .map((at) =>
        h(
          'tr',
          { class: ids[at] === client ? 'chosen' : null },
          h('th', { scope: 'row' }, name(names[ids[at]])),
          h('td', {}, cells.length ? wordsOf(cells[ids[at]]).split(';')[0] : '–'),
          h(
            'td',
            {},
            source[at] < 0
              ? 'a mixture or a model'
              : source[at] === ids[at]
                ? 'itself'
                : name(names[source[at]]),
          ),
          h('td', { class: 'number' }, number(coef[at])),
          h('td', { class: 'number' }, percent(Math.abs(coef[at]) / (total || 1), 1)),
          hasErrors && h('td', { class: 'number' }, number(errors[at])),
        ),
      );
    const heads = [
      'client',
      'outcome',
      'represented by',
      { text: 'weight', right: true },
      { text: 'share of the step', right: true },
    ];
    if (hasErrors) heads.push({ text: 'error², true update', right: true });
    return { rows, heads, more: order.length - rows.length };
  }

  draw(client = null) {
    const { names, ids, cells, refusals, metrics, cut } = this.found;
    const represented = new Set(ids);
    const silent = cells
      .map((cell, at) => [cell, at])
      .filter(([cell, at]) => cell !== 0 && !represented.has(at));
    const { rows, heads, more } = this.rows(client);
    const field = h('input', {
      type: 'search',
      value: this.search,
      onchange: () => {
        this.search = field.value;
        this.draw(client);
      },
    });
    replace(
      this.element,
      h(
        'div',
        { class: 'tools' },
        h('h2', {}, `Cast of ${round(this.t)}`),
        button('‹', () => this.t > 0 && this.open(this.beside(this.t, -1)), { 'aria-label': 'Previous round' }),
        button('›', () => this.open(this.beside(this.t, 1)).catch(() => {}), { 'aria-label': 'Next round' }),
      ),
      facts(Object.entries(metrics).map(([key, value]) => [key.replaceAll('_', ' '), number(value)])),
      names.length > 20 && h('label', {}, 'Find a client', field),
      rows.length
        ? table(`Who represented whom in ${round(this.t)}`, heads, rows, {
            class: heads.length > 5 ? null : 'voices',
          })
        : h(
            'p',
            {},
            ids.length
              ? 'Nothing represented a client of that name in this round.'
              : 'Nobody was represented in this round: the model stayed as it was.',
          ),
      more > 0 &&
        h('p', { class: 'quiet' }, `${count(more, 'more row')}; search for a client to see its own.`),
      this.found.source.some((one, at) => one < 0 && cells[ids[at]] >> 4 === 0) &&
        h(
          'p',
          { class: 'quiet' },
          'A mixture of those who came holds nothing of a client that has never come: on the map, nobody represents it.',
        ),
      cut && h('p', { class: 'quiet' }, 'Of this round, each client’s largest contributions are kept.'),
      silent.length > 0 &&
        h(
          'details',
          {},
          h('summary', {}, `${count(silent.length, 'client')} represented by nobody`),
          h(
            'ul',
            { class: 'inline' },
            silent
              .slice(0, MOST)
              .map(([cell, at]) => h('li', {}, name(names[at]), ` (${wordsOf(cell).split(';')[0]})`)),
          ),
        ),
      refusals.length > 0 &&
        h(
          'details',
          { open: true },
          h('summary', {}, count(refusals.length, 'refusal')),
          h(
            'ul',
            {},
            refusals
              .slice(0, MOST)
              .map((one) => h('li', {}, name(one.id), `: ${one.reason} (`, said(one.detail), ')')),
          ),
        ),
    );
  }
}
