// A matrix of clients × clients, in the order of their clusters, which are framed.

import { h } from './dom.js';
import { number } from './format.js';
import { isDark } from './cells.js';

const WIDEST = 560; // CSS pixels

// One blue from light to dark, so that brightness alone tells more from less.
function shade(share) {
  const [from, to] = isDark()
    ? [
        [26, 32, 39],
        [150, 205, 245],
      ]
    : [
        [242, 246, 250],
        [0, 70, 120],
      ];
  return from.map((one, at) => Math.round(one + (to[at] - one) * share));
}

export function heatMap(title, matrix, names, groups) {
  const n = matrix.length;
  const order = [...matrix.keys()];
  if (groups) order.sort((a, b) => groups[a] - groups[b] || a - b);
  const known = matrix.flat().filter((one) => one !== null);
  const low = Math.min(...known),
    high = Math.max(...known);
  const size = Math.max(1, Math.min(24, Math.floor(WIDEST / n)));
  const canvas = h('canvas', {
    width: n * size,
    height: n * size,
    role: 'img',
    tabindex: '0',
    'aria-label': `${title}, from ${number(low)} to ${number(high)}; ${n} clients${groups ? ', ordered by cluster' : ''}`,
  });
  const told = h('p', { class: 'readout', role: 'status' }, 'Point at a pair.');

  function draw() {
    const context = canvas.getContext('2d');
    context.clearRect(0, 0, canvas.width, canvas.height);
    order.forEach((i, y) =>
      order.forEach((j, x) => {
        const value = matrix[i][j];
        context.fillStyle =
          value === null
            ? isDark()
              ? '#4A535E'
              : '#B4BBC5'
            : `rgb(${shade((value - low) / (high - low || 1)).join(' ')})`;
        context.fillRect(x * size, y * size, size, size);
      }),
    );
    if (!groups) return;
    context.strokeStyle = '#E69F00';
    context.lineWidth = 2;
    for (let from = 0; from < n;) {
      let to = from;
      while (to < n && groups[order[to]] === groups[order[from]]) to++;
      context.strokeRect(from * size + 1, from * size + 1, (to - from) * size - 2, (to - from) * size - 2);
      from = to;
    }
  }

  canvas.addEventListener('mousemove', (event) => {
    const scale = canvas.width / canvas.clientWidth / size;
    const i = order[Math.floor(event.offsetY * scale)],
      j = order[Math.floor(event.offsetX * scale)];
    if (i === undefined || j === undefined) return;
    told.textContent = `${names[i]} and ${names[j]}: ${matrix[i][j] === null ? 'never came together' : number(matrix[i][j])}`;
  });
  addEventListener('themed', draw);
  draw();
  const element = h(
    'figure',
    { class: 'chart' },
    h('figcaption', {}, title),
    canvas,
    told,
    h(
      'p',
      { class: 'quiet' },
      `From ${number(low)} (${isDark() ? 'dark' : 'light'}) to ${number(high)}; grey: never came together.`,
      groups ? ' Frames: clusters, unknown to the method.' : '',
    ),
  );
  return { element, close: () => removeEventListener('themed', draw) };
}
