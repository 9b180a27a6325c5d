// One run: its curves beside the study's other strategies, who came, and who stood in for whom.

import { get } from './api.js';
import { announce, h, name, redraw, replace } from './dom.js';
import { labels, number, throttled } from './format.js';
import { live } from './live.js';
import { badge, facts, failed, progress, warnings } from './parts.js';
import { Cast } from './cast.js';
import { Curves } from './curves.js';
import { AttendanceMap } from './map.js';
import { Findings } from './findings.js';

export async function show({ root, id, query, state, title }) {
  const about = {}; // filled below, and again when the run continues
  const read = h('p', { class: 'quiet' }),
    head = h('div'),
    told = h('div'),
    settings = h('div');
  const path = `/api/runs/${id}`;
  const curves = new Curves(id);
  const map = new AttendanceMap({
    load: (window) => get(`${path}/map`, window),
    names: () => about.names ?? [],
    onRound: (t, client) => open(t, client),
  });
  const cast = new Cast({
    load: (t) => get(`${path}/rounds/${t}`),
    onChosen: (t) => {
      map.choose(t);
      history.replaceState(null, '', `${location.pathname}?round=${t + 1}`);
    },
  });
  const findings = new Findings(id);

  function open(t, client = null, options = {}) {
    return cast.open(t, client, options).catch((error) => {
      replace(cast.element, h('p', { class: 'alarm', role: 'alert' }, error.message));
    });
  }

  function describe() {
    title(`${about.strategy}, ${about.study}`);
    const more = [
      about.live && h('a', { href: `/federations/${id}` }, 'Federation'),
      about.live && ' ',
      about.siblings?.length > 0 && h('a', { href: `/compare/${about.studyId}` }, 'Compare'),
    ].filter(Boolean);
    redraw(
      head,
      h('p', { class: 'path' }, h('a', { href: `/?study=${about.studyId}` }, name(about.study))),
      h('h1', {}, name(about.strategy)),
      facts([
        ['state', badge(about.status)],
        ['rounds', progress(about)],
        ['seed', about.seed],
        ['clients', number(about.clients)],
        ['situation', labels(about) ? name(labels(about)) : null],
        ['more', more.length ? more : null],
      ]),
      failed(about),
    );
    redraw(told, warnings(about.warnings));
    redraw(
      settings,
      about.resolved &&
        h(
          'details',
          {},
          h('summary', {}, 'Settings'),
          h('pre', { tabindex: '0' }, JSON.stringify(about.resolved, null, 2)),
        ),
    );
  }

  async function load() {
    Object.assign(about, await get(path));
    describe();
  }

  replace(root, h('p', { class: 'quiet' }, 'Loading…'));
  // side by side: the map waits for nothing but itself
  const first = map.load({ ...map.size(), order: 'number' }).catch(() => null);
  await load();
  if (about.status === 'damaged') {
    replace(root, head);
    return () => {};
  }
  replace(
    root,
    head,
    told,
    read,
    curves.element,
    map.element,
    cast.element,
    curves.below,
    findings.element,
    settings,
  );
  const found = await first;
  if (found) map.take(found);
  performance.mark('understudy-map');
  await curves.load(about);
  performance.mark('understudy-run');
  const wanted = Number(query.get('round'));
  if (wanted >= 1) await open(wanted - 1, null, { focus: false });
  let status = about.status;
  findings.load(about).catch(() => {});

  const isBehind = () => curves.n < about.rounds || (map.base?.n ?? 0) < about.rounds;

  let wasWhole = false;
  const reading = () =>
    replace(
      read,
      isBehind() && about.rounds > 0 && `Reading its rounds: ${number(curves.n)} of ${number(about.rounds)}`,
    );
  const whole = () => {
    wasWhole = true;
    performance.mark('understudy-whole');
  };

  const follow = throttled(async () => {
    try {
      await Promise.all([load(), map.more(), curves.more()]);
      reading();
      if (status !== about.status) {
        status = about.status;
        announce(`This run is ${status}`);
        await findings.load(about);
      }
      // a long run is read in pieces: the first is shown at once
      if (isBehind()) follow();
      else if (!wasWhole) whole();
    } catch {
      /* what is shown stays; the next news may be readable */
    }
  }, 300);
  reading();
  if (isBehind()) follow();
  else whole();
  const stop = live(
    [id],
    (news) => {
      const one = news.runs[0];
      if (one && (one.rounds !== curves.n || one.status !== status)) follow();
    },
    state,
  );
  return () => {
    stop();
    follow.stop();
    map.close();
    curves.close();
    findings.close();
  };
}
