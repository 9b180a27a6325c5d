// The clock of the round that is under way, against the deadline and the grace period.

import { h } from './dom.js';
import { number, percent, round, seconds } from './format.js';

export function roundClock(about) {
  const { timing, status, rounds, of, changed, clients } = about;
  if (status !== 'running' || (of && rounds >= of)) return null;
  const since = changed ? Math.max(0, Date.now() / 1000 - changed) : null;
  const told = [
    `Round ${rounds + 1} is under way`,
    since === null ? null : `, for about ${seconds(since)}.`,
  ];
  if (!timing?.deadline) return h('p', { class: 'clock' }, told);
  const { deadline, grace, quorum } = timing;
  const end = deadline + (grace ?? 0);
  return h(
    'section',
    { class: 'clock', 'aria-label': `Clock of ${round(rounds)}` },
    h(
      'p',
      {},
      told,
      ` Deadline ${seconds(deadline)}`,
      grace ? `, grace ${seconds(grace)} more` : null,
      quorum
        ? `, ends earlier with ${quorum <= 1 ? `${percent(quorum)} (${number(Math.ceil(quorum * (clients ?? 0)))} clients)` : `${quorum} clients`}.`
        : '.',
    ),
    h('meter', {
      min: 0,
      max: end,
      high: deadline,
      optimum: 0,
      value: Math.min(since ?? 0, end),
      'aria-label': 'seconds since the round began',
    }),
  );
}
