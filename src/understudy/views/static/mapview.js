// What part of a map is seen: [first round, last round, top row, bottom row], half a cell around.

const SMALLEST = 4; // cells that a view has at least, each way

export function within(value, n) {
  return Math.max(0, Math.min(n - 1, value));
}

// A range inside −½ … end, not smaller than a few cells.
export function fitted(from, to, end) {
  const size = Math.min(Math.max(to - from, SMALLEST), end + 0.5);
  const begin = Math.max(-0.5, Math.min((from + to - size) / 2, end - size));
  return [begin, begin + size];
}

// Larger or smaller by a factor; what is at (x, y), by default the middle, stays where it is.
export function zoomed([a, b, c, d], by, x = null, y = null) {
  const stays = [x ?? (a + b) / 2, y ?? (c + d) / 2];
  const [left, right] = [a, b].map((one) => stays[0] + (one - stays[0]) * by);
  const [top, bottom] = [c, d].map((one) => stays[1] + (one - stays[1]) * by);
  return [left, right, top, bottom];
}
