// A live federation: every client in a row, with what is wrong at the top.

import { get } from './api.js';
import { classOf, colourOf, wordsOf } from './cells.js';
import { legend } from './mapimage.js';
import { h, name, redraw, replace, said, table } from './dom.js';
import { ago, count, number, percent, round, seconds, throttled } from './format.js';
import { live } from './live.js';
import { badge, facts, failed, progress, warnings } from './parts.js';
import { roundClock } from './clock.js';

const HEADS = [
  'client',
  'last seen',
  { text: 'attendance', right: true },
  'no answer',
  'last outcomes',
  'reasons',
  'represented now by',
];

export async function show({ root, id, query, state, title }) {
  const path = `/api/runs/${id}`;
  let about = await get(path),
    found = null;
  title(`Federation ${about.study}`);
  const head = h('div'),
    told = h('div'),
    rows = h('div'),
    clock = h('div');
  const field = h('input', {
    type: 'search',
    value: query.get('q') ?? '',
    autocomplete: 'off',
    placeholder: 'client id',
    oninput: () => search(),
  });

  async function search() {
    history.replaceState(
      null,
      '',
      field.value ? `${location.pathname}?q=${encodeURIComponent(field.value)}` : location.pathname,
    );
    await load();
  }

  async function load() {
    const wanted = field.value;
    const answer = await get(`${path}/clients`, { search: wanted });
    if (wanted !== field.value) return;
    found = answer;
    draw();
  }

  function describe() {
    redraw(
      head,
      h('h1', {}, name(about.study)),
      facts([
        ['state', badge(about.status)],
        ['rounds', progress(about)],
        ['clients', number(about.clients)],
        ['method', name(about.strategy)],
        ['last round', ago(about.changed)],
        ['more', h('a', { href: `/runs/${id}` }, 'Curves and attendance map')],
      ]),
      failed(about),
    );
    redraw(told, warnings(found?.warnings ?? about.warnings));
    redraw(clock, roundClock(about));
  }

  function row(one) {
    const { n } = found;
    const missed = one.seen < 0 ? null : n - 1 - one.seen;
    const seen =
      one.seen < 0
        ? 'never'
        : missed === 0
          ? 'in the last round'
          : `${round(one.seen)}, ${count(missed, 'round')} ago`;
    // who answers with errors, or with what is refused, is seen and adds nothing
    const taken =
      one.seen < 0 || one.taken === one.seen
        ? null
        : one.taken < 0
          ? ', no update taken yet'
          : `, last update ${round(one.taken)}`;
    const refusals = one.refusals.map((of) =>
      h('li', {}, `${round(of.round)}: ${of.reason} (`, said(of.detail), ')'),
    );
    // a mixture of others holds nothing of a client that never came: it is named, and is nobody
    const isSilent = (one.last.at(-1) ?? 0) >> 4 === 0;
    const voices = one.standIns.map((by) =>
      h(
        'li',
        {},
        by.source < 0
          ? 'a mixture'
          : by.source === one.client
            ? 'itself'
            : name(about.names[by.source] ?? by.source),
        ` ${number(by.coef, 2)}`,
      ),
    );
    return h(
      'tr',
      { class: one.left ? 'left' : missed === 0 ? null : 'away' },
      h(
        'th',
        { scope: 'row' },
        name(one.id),
        one.left && ' (left)',
        one.share !== null && !one.left && h('span', { class: 'quiet' }, ` ${share(one.share)}`),
      ),
      h(
        'td',
        { 'data-head': HEADS[1] },
        seen,
        taken && h('span', { class: 'quiet' }, taken),
        one.seconds !== undefined &&
          one.seconds !== null &&
          h('span', { class: 'quiet' }, `, answers in ${seconds(one.seconds)}`),
      ),
      h(
        'td',
        { class: 'number', 'data-head': HEADS[2].text },
        percent(one.attendance),
        h('span', { class: 'quiet' }, ` ${one.came} of ${one.there}`),
      ),
      h('td', { 'data-head': HEADS[3] }, one.pending < 0 ? '–' : `since ${round(one.pending)}`),
      h('td', { 'data-head': HEADS[4] }, strip(one.last, n)),
      h(
        'td',
        { 'data-head': HEADS[5] },
        one.detail && said(one.detail),
        refusals.length > 0 && h('ul', {}, refusals),
      ),
      h(
        'td',
        { 'data-head': HEADS[6] },
        one.left ? '–' : isSilent && h('strong', {}, 'nobody'),
        voices.length > 0 && h('ul', { class: 'inline' }, voices),
      ),
    );
  }

  function draw() {
    describe();
    const seen = new Uint8Array(256);
    for (const one of found.rows) for (const cell of one.last) seen[cell] = 1;
    redraw(
      rows,
      h(
        'p',
        { class: 'quiet', role: 'status' },
        `${count(found.found, 'client')} found, of ${number(found.of)}${found.found > found.rows.length ? `; the first ${found.rows.length} are shown` : ''}`,
      ),
      table('Clients', HEADS, found.rows.map(row), { class: 'clients' }),
      h('ul', { class: 'legend', 'aria-label': 'Colours of outcomes' }, legend(seen, classOf)),
      found.strangers.length > 0 &&
        h(
          'p',
          { class: 'alarm' },
          'Refused from ids that no client has: ',
          found.strangers.map((one) => [name(one.id), ` (${one.reason}, ${round(one.round)}) `]),
        ),
    );
  }

  replace(
    root,
    head,
    told,
    clock,
    h(
      'form',
      { class: 'filters', role: 'search', onsubmit: (event) => event.preventDefault() },
      h('label', {}, 'Find a client', field),
    ),
    rows,
  );
  await load();
  performance.mark('understudy-federation');
  const follow = throttled(async () => {
    try {
      about = await get(path);
      await load();
      if (found.n < about.rounds) follow(); // a long run is read in pieces
    } catch {
      /* what is shown stays */
    }
  }, 500);
  if (found.n < about.rounds) follow();
  const ticking = setInterval(describe, 1000); // the clock runs between two rounds
  const themed = () => found && draw();
  addEventListener('themed', themed);
  const stop = live(
    [id],
    (news) => {
      const one = news.runs[0];
      if (one && (one.rounds !== about.rounds || one.status !== about.status || one.rounds !== found.n))
        follow();
    },
    state,
  );
  return () => {
    stop();
    follow.stop();
    clearInterval(ticking);
    removeEventListener('themed', themed);
  };
}

function share(of) {
  return `${of > 0 && of < 0.01 ? 'less than 1 %' : percent(of)} of the examples`;
}

// The last outcomes as squares, the newest on the right, each with its words.
function strip(cells, n) {
  const first = n - cells.length;
  const words = cells.map((cell, at) => `${round(first + at)}: ${wordsOf(cell)}`);
  return h(
    'span',
    { class: 'strip', role: 'img', 'aria-label': `last outcomes: ${words.slice(-5).join('; ')}` },
    cells.map((cell, at) => {
      const square = h('span', { class: 'square', title: words[at] });
      square.style.background = colourOf(classOf(cell));
      return square;
    }),
  );
}
