// The live page's attendance map and cast of a round, in a report: what the page asks a server for
// is in the file.

import { Cast } from './cast.js';
import { h, name, replace } from './dom.js';
import { AttendanceMap } from './map.js';
import { round } from './format.js';
import { unpacked } from './wire.js';

const place = document.getElementById('maps');
const given = JSON.parse(document.getElementById('maps-data').textContent);

async function opened(text) {
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return unpacked(await new Response(stream).arrayBuffer());
}

// The map of all rounds and clients, in an order; `order` tells which client a row is.
function inOrder(run, order) {
  const { n, clients, arrays, shapes } = run;
  const head = { epoch: 0, n, clients, first: 0, last: n, top: 0, bottom: clients, order };
  const whole = { ...head, rounds: run.rounds, rows: run.rows, shapes: { cells: shapes.cells } };
  const rows = arrays[`order ${order}`];
  if (order === 'number' || !rows) {
    const own = Int32Array.from({ length: clients }, (_, client) => client);
    return { ...whole, arrays: { cells: arrays.cells, order: own } };
  }
  const cells = new Uint8Array(n * clients);
  for (let t = 0; t < n; t++) {
    for (let row = 0; row < clients; row++) cells[t * clients + row] = arrays.cells[t * clients + rows[row]];
  }
  return { ...whole, arrays: { cells, order: rows } };
}

function castOf(run, names, t) {
  const at = run.casts.findIndex((one) => one.round === t);
  if (at < 0) throw new Error(`The cast of ${round(t)} is not in this file.`);
  const { starts, ids, source, coef, errors, cells, own } = run.arrays;
  const [from, to] = [starts[at], starts[at + 1]];
  const part = (array) => Array.from(array.subarray(from, to));
  const row = own ? own.subarray(at * run.clients) : cells.subarray(t * run.clients);
  const n = run.casts[at].clients;
  return {
    ...run.casts[at],
    names: names.slice(0, n),
    cells: Array.from(row.subarray(0, n)),
    ids: part(ids),
    source: part(source),
    coef: part(coef),
    errors: errors ? part(errors).map((one) => (Number.isNaN(one) ? null : one)) : [],
  };
}

// Of a long run some casts are left out: the nearest that is there, or the next in a direction.
function nearest(run, t, by = 0) {
  const there = run.casts.map((one) => one.round);
  const side = by === 0 ? there : there.filter((one) => (one - t) * by > 0);
  if (!side.length) return t;
  return side.reduce((best, one) => (Math.abs(one - t) < Math.abs(best - t) ? one : best));
}

let shown = null;

async function show(one) {
  const run = await opened(one.data);
  const names = Array.from({ length: run.clients }, (_, client) => run.names[client] ?? String(client));
  const map = new AttendanceMap({
    load: async ({ order }) => inOrder(run, order),
    names: () => names,
    onRound: (t, client) => open(nearest(run, t), client),
    orders: run.orders,
  });
  const cast = new Cast({
    load: async (t) => castOf(run, names, t),
    onChosen: (t) => map.choose(t),
    beside: (t, by) => nearest(run, t, by),
  });
  const open = (t, client) =>
    cast.open(t, client).catch((error) => {
      replace(cast.element, h('p', { class: 'alarm', role: 'alert' }, error.message));
    });
  shown?.close();
  shown = map;
  replace(below, map.element, h('p', { class: 'notes' }, one.note), cast.element);
  await map.refresh();
}

function failed(error) {
  replace(below, h('p', {}, `This browser cannot show the map: ${error.message}`));
}

const below = h('div');
const choice = h(
  'select',
  { onchange: () => show(given[choice.selectedIndex]).catch(failed) },
  given.map((one, at) => h('option', { value: String(at) }, one.title)),
);
replace(
  place,
  h('div', { id: 'announcer', class: 'unseen', role: 'status', 'aria-live': 'polite' }),
  given.length > 1
    ? h('label', {}, 'Attendance under', choice)
    : h('p', {}, 'Attendance under ', name(given[0].title)),
  below,
);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => dispatchEvent(new Event('themed')));
show(given[0]).catch(failed);
