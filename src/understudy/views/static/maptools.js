// What a person does with a map but pointing: its buttons and its keys.

import { classOf, outcomeClassOf } from './cells.js';
import { button, h } from './dom.js';
import { within } from './mapview.js';

const ORDERS = { number: 'number', cluster: 'cluster', attendance: 'attendance', 'left out': 'left out most' };
export const ALL_ORDERS = Object.keys(ORDERS);

export function toolbar(map) {
  const order = h(
    'select',
    {
      onchange: () => {
        map.order = order.value;
        map.refresh();
      },
    },
    Object.entries(ORDERS)
      .filter(([value]) => map.orders.includes(value))
      .map(([value, words]) => h('option', { value }, words)),
  );
  const colours = h(
    'select',
    {
      onchange: () => {
        map.classify = colours.value === 'voice' ? classOf : outcomeClassOf;
        map.recolour();
      },
    },
    h('option', { value: 'voice' }, 'representation'),
    h('option', { value: 'outcome' }, 'outcome'),
  );
  return h(
    'div',
    { class: 'tools' },
    h('label', {}, 'Clients by', order),
    h('label', {}, 'Colour by', colours),
    button('+', () => map.zoom(0.5), { 'aria-label': 'Zoom in' }),
    button('−', () => map.zoom(2), { 'aria-label': 'Zoom out' }),
    button('All', () => map.all(), { 'aria-label': 'Show all rounds and clients' }),
  );
}

// Arrow keys move, with Shift by ten.
export function pressed(map, event) {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const act = {
    '+': () => map.zoom(0.5, map.at.t, map.at.row),
    '-': () => map.zoom(2),
    0: () => map.all(),
    Enter: () => map.open(),
  }[event.key];
  if (!map.base || event.ctrlKey || event.metaKey || event.altKey || !(act || moves[event.key])) return;
  event.preventDefault();
  map.byKey = true;
  if (act) act();
  else {
    const [dx, dy] = moves[event.key],
      far = event.shiftKey ? 10 : 1;
    map.at = {
      t: within(map.at.t + dx * far, map.base.n),
      row: within(map.at.row + dy * far, map.base.clients),
    };
    map.tell();
    map.show();
  }
  map.place.addEventListener(
    'mousemove',
    () => {
      map.byKey = false;
    },
    { once: true },
  );
}
