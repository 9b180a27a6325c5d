// Pieces that several pages share.

import { h, name } from './dom.js';
import { count, number, percent, seconds } from './format.js';

// Said in words, not only by a colour.
export function badge(status) {
  return h('span', { class: `badge ${status}` }, status);
}

export function address(run) {
  return run.live ? `/federations/${run.id}` : `/runs/${run.id}`;
}

export function progress(run) {
  const words = run.of ? `${number(run.rounds)} of ${number(run.of)}` : count(run.rounds, 'round');
  const left = run.left === null || run.left === undefined ? null : `, ${seconds(run.left)} left`;
  const bar = run.of
    ? h('progress', { max: run.of, value: Math.min(run.rounds, run.of), 'aria-label': 'rounds played' })
    : null;
  return h('span', { class: 'progress' }, bar, h('span', {}, words, left));
}

export function warnings(list) {
  const now = (list ?? []).filter((one) => one.now),
    past = (list ?? []).filter((one) => !one.now);
  const lines = (some) =>
    h(
      'ul',
      {},
      some.map((one) => h('li', {}, one.words)),
    );
  return [
    now.length > 0 &&
      h(
        'section',
        { class: 'warnings', 'aria-label': 'Warnings' },
        h('h2', {}, count(now.length, 'warning')),
        lines(now),
      ),
    past.length > 0 &&
      h(
        'details',
        {},
        h(
          'summary',
          {},
          `${count(past.length, 'warning')} that no longer ${past.length === 1 ? 'holds' : 'hold'}`,
        ),
        lines(past),
      ),
  ];
}

export function facts(pairs) {
  return h(
    'dl',
    { class: 'facts' },
    pairs
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([term, value]) => h('div', {}, h('dt', {}, term), h('dd', {}, value))),
  );
}

export function failed(run) {
  if (!run.error) return null;
  return h('div', { class: 'alarm', role: 'alert' }, h('pre', { tabindex: '0' }, run.error));
}

// Bars of HTML: they can be read, selected and seen without a canvas.
export function bars(title, rows, { words = number, most = null } = {}) {
  const largest = most ?? Math.max(...rows.map((row) => row.value).filter(Number.isFinite), 0);
  return h(
    'div',
    { class: 'bars', role: 'list', 'aria-label': title },
    rows.map((row) =>
      h(
        'div',
        { role: 'listitem' },
        name(row.name, 'span'),
        h('meter', {
          min: 0,
          max: largest || 1,
          value: Number.isFinite(row.value) ? row.value : 0,
          'aria-label': `${title}, ${row.name}`,
        }),
        h('span', { class: 'number' }, words(row.value)),
      ),
    ),
  );
}

export { percent };
