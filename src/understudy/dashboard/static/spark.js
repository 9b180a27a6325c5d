// A line as small as a word: how a measure went.

const SVG = 'http://www.w3.org/2000/svg';

export function sparkline(values, words) {
  const picture = document.createElementNS(SVG, 'svg');
  picture.setAttribute('viewBox', '0 0 100 24');
  picture.setAttribute('role', 'img');
  picture.setAttribute('aria-label', words);
  if (!values || values.length < 2) return picture;
  let low = Infinity,
    high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const line = document.createElementNS(SVG, 'polyline');
  const points = Array.from(
    values,
    (value, at) =>
      `${((at * 98) / (values.length - 1) + 1).toFixed(1)},${(22 - (20 * (value - low)) / (high - low || 1)).toFixed(1)}`,
  );
  line.setAttribute('points', points.join(' '));
  picture.append(line);
  picture.setAttribute(
    'aria-label',
    `${words}: from ${values[0].toPrecision(3)} to ${values.at(-1).toPrecision(3)}`,
  );
  return picture;
}
