// What runs and what ran.

import { get } from './api.js';
import { announce, button, h, name, redraw, replace, table } from './dom.js';
import { ago, count, labels, number, percent, throttled } from './format.js';
import { live } from './live.js';
import { address, badge, progress } from './parts.js';
import { sparkline } from './spark.js';

const STATUSES = ['running', 'stopped', 'failed', 'damaged', 'waiting', 'done'];
const MOST_TRIES = 40;
const STALE = 10_000; // milliseconds until "a minute ago" is said anew
const HEADS = [
  'strategy',
  'study',
  'situation',
  'state',
  'rounds',
  'course',
  'last event',
  { text: 'clients', right: true },
];
const MOST = 60; // rows before the rest is asked for: each has a line to be drawn

export async function show({ root, query, state, navigate, title }) {
  title('Overview');
  const runs = new Map();
  let troubles = [],
    most = MOST;
  const shown = {
    status: query.get('status') ?? '',
    q: query.get('q') ?? '',
    study: query.get('study') ?? '',
  };
  const list = h('div'),
    studies = h('div'),
    told = h('div');
  const lines = new Map();

  function filtered() {
    const words = shown.q.toLowerCase();
    // runs of a study stay together, in its order
    const latest = new Map();
    for (const { studyId, changed } of runs.values())
      latest.set(studyId, Math.max(changed, latest.get(studyId) ?? 0));
    return [...runs.values()]
      .filter(
        (run) =>
          (!shown.status || run.status === shown.status) &&
          (!shown.study || run.studyId === shown.study) &&
          (!words ||
            `${run.study} ${run.title} ${run.strategy} ${labels(run)} seed ${run.seed}`
              .toLowerCase()
              .includes(words)),
      )
      .sort(
        (a, b) =>
          STATUSES.indexOf(a.status) - STATUSES.indexOf(b.status) ||
          latest.get(b.studyId) - latest.get(a.studyId),
      );
  }

  function remember() {
    const kept = new URLSearchParams(Object.entries(shown).filter(([, value]) => value));
    history.replaceState(null, '', kept.size ? `/?${kept}` : '/');
    draw();
  }

  function drawStudies() {
    const found = new Map();
    for (const run of runs.values()) {
      const one = found.get(run.studyId) ?? { ...run, runs: 0, done: 0, counts: {} };
      one.runs += 1;
      one.done += run.status === 'done';
      one.changed = Math.max(one.changed, run.changed);
      one.counts[run.status] = (one.counts[run.status] ?? 0) + 1;
      found.set(run.studyId, one);
    }
    redraw(
      studies,
      h(
        'ul',
        { class: 'cards' },
        [...found.values()].map((study) =>
          h(
            'li',
            { class: 'card' },
            h('h3', {}, name(study.study)),
            study.title !== study.study && h('p', { class: 'quiet' }, name(study.title)),
            h(
              'p',
              {},
              STATUSES.filter((one) => study.counts[one]).map((one) => [
                badge(one),
                ` ${study.counts[one]} `,
              ]),
            ),
            study.runs > 1 &&
              h('progress', {
                max: study.runs,
                value: study.done,
                'aria-label': `runs that are done, of ${study.runs}`,
              }),
            h('p', { class: 'quiet' }, `changed ${ago(study.changed)}`),
            h(
              'p',
              { class: 'links' },
              study.runs === 1
                ? h('a', { href: address(study) }, study.live ? 'Federation' : 'Run')
                : [
                    button('Its runs', () => {
                      shown.study = study.studyId;
                      field.study.value = shown.study;
                      remember();
                    }),
                    h('a', { href: `/compare/${study.studyId}` }, 'Compare'),
                  ],
            ),
          ),
        ),
      ),
    );
  }

  function row(run) {
    const cell = h('td', { class: 'spark' });
    const known = lines.get(run.id);
    if (known?.values) {
      cell.append(sparkline(known.values, `course of ${run.strategy}`));
      const last = known.values.at(-1);
      const words = known.kind === 'accuracy' ? percent(last, 1) : `${known.kind} ${number(last, 3)}`;
      if (last !== undefined) cell.append(h('span', { class: 'number' }, words));
    }
    return h(
      'tr',
      {},
      h('th', { scope: 'row' }, h('a', { href: address(run) }, name(run.strategy))),
      h('td', {}, name(run.study)),
      h('td', {}, labels(run) && [name(labels(run)), ' '], `seed ${run.seed}`),
      h(
        'td',
        {},
        badge(run.status),
        run.warnings > 0 && [
          ' ',
          h('a', { class: 'warned', href: address(run) }, count(run.warnings, 'warning')),
        ],
        run.error && h('p', { class: 'quiet' }, name(run.error)),
      ),
      h('td', {}, progress(run)),
      cell,
      h('td', {}, ago(run.changed)),
      h('td', { class: 'number' }, number(run.clients)),
    );
  }

  function draw() {
    redraw(
      told,
      troubles.map((one) =>
        h(
          'p',
          one.empty ? { class: 'notice' } : { class: 'alarm', role: 'alert' },
          name(one.name),
          `: ${one.words}`,
        ),
      ),
    );
    drawStudies();
    const found = filtered();
    redraw(
      list,
      !runs.size &&
        h(
          'p',
          {},
          'No run is here yet. This page shows those of ',
          h('code', {}, 'understudy run'),
          ', of simulations and of live federations as soon as they begin.',
        ),
      h(
        'p',
        { class: 'quiet', role: 'status' },
        `${count(found.length, 'run')}${found.length < runs.size ? ` of ${runs.size}` : ''}`,
      ),
      found.length > 0 &&
        table(
          'Runs',
          HEADS,
          found.slice(0, most).map(row),
          { class: 'runs' },
        ),
      found.length > most &&
        button(`Show ${found.length - most} more`, () => {
          most += 500;
          draw();
        }),
    );
    draws(found.slice(0, most));
  }

  // Lines come after the list: they take the rounds of every run.
  async function draws(found) {
    const wanted = found.filter((run) => run.rounds && lines.get(run.id)?.rounds !== run.rounds);
    if (!wanted.length) return;
    for (const run of wanted) {
      const { values, kind, tries = 0 } = lines.get(run.id) ?? {};
      lines.set(run.id, { values, kind, tries: tries + 1, rounds: run.rounds });
    }
    try {
      for (let at = 0; at < wanted.length; at += 12) {
        const part = wanted.slice(at, at + 12);
        const { arrays, warned, kinds } = await get('/api/sparklines', {
          runs: part.map((run) => run.id).join(','),
        });
        for (const [id, values] of Object.entries(arrays))
          Object.assign(lines.get(id), { values, kind: kinds[id] });
        for (const [id, n] of Object.entries(warned)) {
          if (n !== null && runs.has(id)) runs.get(id).warnings = n;
          // of long runs not all rounds are read at once: they are asked for again
          else if (n === null && lines.get(id).tries < MOST_TRIES) lines.get(id).rounds = -1;
        }
        again();
      }
    } catch {
      /* a list without lines is still one */
    }
  }
  const again = throttled(draw, 500);

  const field = {
    q: h('input', {
      type: 'search',
      value: shown.q,
      oninput: () => {
        shown.q = field.q.value;
        remember();
      },
    }),
    status: h(
      'select',
      {
        onchange: () => {
          shown.status = field.status.value;
          remember();
        },
      },
      h('option', { value: '' }, 'any'),
      STATUSES.map((one) => h('option', { value: one }, one)),
    ),
    study: h('select', {
      onchange: () => {
        shown.study = field.study.value;
        remember();
      },
    }),
  };

  function fillStudies() {
    const known = new Map([...runs.values()].map((run) => [run.studyId, run.study]));
    replace(
      field.study,
      h('option', { value: '' }, 'any'),
      [...known].map(([id, words]) => h('option', { value: id }, words)),
    );
    field.study.value = shown.study;
    field.status.value = shown.status;
  }

  async function load() {
    const found = await get('/api/overview');
    runs.clear();
    for (const run of found.runs) runs.set(run.id, run);
    troubles = found.troubles;
    fillStudies();
    draw();
  }

  replace(
    root,
    h('h1', {}, 'Runs'),
    told,
    studies,
    h(
      'form',
      { class: 'filters', role: 'search', onsubmit: (event) => event.preventDefault() },
      h('label', {}, 'Find', field.q),
      h('label', {}, 'State', field.status),
      h('label', {}, 'Study', field.study),
    ),
    list,
  );
  await load();
  performance.mark('understudy-overview');

  const stop = live(
    null,
    async (news) => {
      const isNew = news.runs.some((run) => !runs.has(run.id)) || news.gone.length;
      if (isNew || !news.runs.length) return load();
      for (const run of news.runs) {
        if (runs.get(run.id).status !== run.status)
          announce(`${run.strategy}, seed ${run.seed}: ${run.status}`);
        runs.set(run.id, run);
      }
      again();
    },
    state,
  );
  const ticking = setInterval(again, STALE);
  return () => {
    stop();
    again.stop();
    clearInterval(ticking);
  };
}
