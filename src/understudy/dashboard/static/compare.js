// Strategies of a study against each other: the paired table, and its text for a paper.

import { get } from './api.js';
import { announce, button, h, name, redraw, replace, table } from './dom.js';
import { count, throttled } from './format.js';
import { live } from './live.js';

const PAUSE = 2000; // milliseconds between two readings of a study that is running

export async function show({ root, id, query, state, navigate, title }) {
  title('Compare');
  const { runs } = await get('/api/overview');
  const studies = new Map(),
    states = new Map();
  for (const run of runs) {
    const one = studies.get(run.studyId) ?? { id: run.studyId, study: run.study, strategies: new Set() };
    one.strategies.add(run.strategy);
    states.set(run.id, run.status);
    studies.set(run.studyId, one);
  }
  const fitting = [...studies.values()].filter((one) => one.strategies.size > 1);
  const chosen = id ?? fitting[0]?.id;
  if (!chosen) {
    return void replace(
      root,
      h('h1', {}, 'Compare'),
      h(
        'p',
        {},
        'No study with several strategies is here yet. ',
        h('a', { href: '/' }, 'Overview'),
      ),
    );
  }
  if (!studies.has(chosen)) throw new Error('There is no such study (any more).');
  const asked = {
    strategy: query.getAll('strategy'),
    metric: query.get('metric') ?? '',
    baseline: query.get('baseline') ?? '',
  };
  const place = h('div'),
    choice = h('form', { class: 'choice', onsubmit: (event) => event.preventDefault() });
  replace(root, h('h1', {}, 'Compare'), choice, place);
  replace(place, h('p', { class: 'quiet', role: 'status' }, 'Reading the runs of the study…'));

  async function load() {
    const found = await get(`/api/studies/${chosen}/comparison`, asked);
    draw(found);
    performance.mark('understudy-compare');
  }

  function again() {
    const kept = new URLSearchParams();
    for (const one of asked.strategy) kept.append('strategy', one);
    if (asked.metric) kept.set('metric', asked.metric);
    if (asked.baseline) kept.set('baseline', asked.baseline);
    history.replaceState(null, '', `/compare/${chosen}${kept.size ? `?${kept}` : ''}`);
    load().catch((error) => replace(place, h('p', { class: 'alarm', role: 'alert' }, error.message)));
  }

  function select(words, key, options, value) {
    const field = h(
      'select',
      {
        onchange: () => {
          asked[key] = field.value;
          again();
        },
      },
      options.map(([one, shown]) => h('option', { value: one }, shown)),
    );
    field.value = value ?? '';
    return h('label', {}, words, field);
  }

  function drawChoice(found) {
    const asks = JSON.stringify([found.strategies, found.chosen, found.metrics, found.metric, found.baseline]);
    if (asks === choices) return; // somebody may be choosing
    choices = asks;
    const list = h(
      'select',
      { onchange: () => navigate(`/compare/${list.value}`) },
      fitting.map((one) => h('option', { value: one.id }, one.study)),
    );
    list.value = chosen;
    const boxes = found.strategies.map((strategy) =>
      h(
        'label',
        { class: 'box' },
        h('input', {
          type: 'checkbox',
          value: strategy,
          checked: found.chosen?.includes(strategy) ?? true,
          onchange: () => {
            asked.strategy = [...choice.querySelectorAll('input:checked')].map((one) => one.value);
            if (asked.baseline && !asked.strategy.includes(asked.baseline)) asked.baseline = '';
            again();
          },
        }),
        name(strategy),
      ),
    );
    const wasFocused = document.activeElement?.value;
    replace(
      choice,
      h('label', {}, 'Study', list),
      h('fieldset', {}, h('legend', {}, 'Strategies'), boxes),
      select(
        'Measure',
        'metric',
        found.metrics.map((one) => [one.name, one.words]),
        found.metric,
      ),
      select(
        'Baseline',
        'baseline',
        (found.chosen ?? []).map((one) => [one, one]),
        found.baseline,
      ),
    );
    [...choice.elements].find((one) => one.type === 'checkbox' && one.value === wasFocused)?.focus();
  }

  let shown = null,
    choices = '';
  function draw(found) {
    shown = found;
    drawChoice(found);
    if (!found.table)
      return void replace(
        place,
        h('p', {}, 'No run of these strategies is done yet, so there is nothing to compare.'),
        unfinished(found),
      );
    const { heads, cells, right, notes } = found.table;
    const rows = cells.map((row) =>
      h(
        'tr',
        {},
        row.map((cell, at) =>
          right.includes(at)
            ? h('td', { class: 'number' }, cell)
            : heads[at] === 'strategy'
              ? h('th', { scope: 'row' }, name(cell))
              : h('td', {}, name(cell)),
        ),
      ),
    );
    const copies = h('p', { class: 'tools' }, copy('Markdown', 'markdown'), copy('LaTeX', 'latex'));
    redraw(
      place,
      unfinished(found),
      table(
        `Strategies of ${found.study}, ${found.measure}`,
        heads.map((text, at) => ({ text, right: right.includes(at) })),
        rows,
      ),
      h('p', { class: 'notes' }, notes.join(' ')),
      copies,
      differences(found),
    );
  }

  function unfinished(found) {
    const runs = found.unfinished;
    return (
      runs > 0 &&
      h('p', { class: 'notice' }, `${count(runs, 'run')} of this study ${runs === 1 ? 'is' : 'are'} not done, and not in the table.`)
    );
  }

  function copy(words, form) {
    return button(`Copy as ${words}`, async () => {
      const text = shown[form]; // the table that is seen now
      try {
        await navigator.clipboard.writeText(text);
        announce(`The table is copied as ${words}.`);
      } catch {
        // without a secure origin browsers give no clipboard: the text is there to be taken
        const field = h('textarea', { rows: 12, readOnly: true, 'aria-label': `The table as ${words}` });
        field.value = text;
        place.append(field);
        field.select();
      }
    });
  }

  function differences(found) {
    if (!found.differences?.length) return null;
    return h(
      'section',
      {},
      h('h2', {}, `What differs from ${found.baseline}, besides the method`),
      table(
        'Settings that differ',
        ['strategy', 'setting', 'its own', found.baseline],
        found.differences.map((row) =>
          h(
            'tr',
            {},
            h('th', { scope: 'row' }, name(row[0])),
            row.slice(1).map((one) => h('td', {}, name(one))),
          ),
        ),
      ),
    );
  }

  await load();
  const reload = throttled(() => load().catch(() => {}), PAUSE); // what is shown stays
  const stop = live(
    null,
    (news) => {
      const changed = news.runs.filter(
        (run) => run.studyId === chosen && states.get(run.id) !== run.status,
      );
      for (const run of changed) states.set(run.id, run.status);
      if (changed.length) reload();
    },
    state,
  );
  return () => {
    stop();
    reload.stop();
  };
}
