// A cell of the attendance map is a byte: the outcome + 1 in the lower half (0: the client was not
// there yet), in the upper half what represented the client. `views/columns.py` is its other half.

export const OUTCOMES = [
  'came',
  'late',
  'error',
  'unavailable',
  'missing',
  'restarted',
  'refused',
  'not wanted',
];
const VOICES = ['nobody', 'itself', 'another client', 'a mixture'];
const AGES = ['1 round', '2–3 rounds', '4–7 rounds', '8–15 rounds', '16 rounds or more'];
const REMEMBERED = 4;

// Okabe and Ito's colours, which colour-blind people can tell apart; older memories fade.
const CLASSES = {
  came: ['its update came', '#0072B2', '#4C9FD6'],
  late: ['late: an earlier round’s update came', '#56B4E9', '#9AD3F5'],
  friend: ['another client stood in', '#E69F00', '#E69F00'],
  mixture: ['a mixture stood in', '#CC79A7', '#CC79A7'],
  memory0: ['remembered, 1 round old', '#009E73', '#1FC79A'],
  memory1: ['remembered, 2–3 rounds', '#3FB391', '#18A37E'],
  memory2: ['remembered, 4–7 rounds', '#78C8AF', '#128063'],
  memory3: ['remembered, 8–15 rounds', '#A9DBCB', '#0D614B'],
  memory4: ['remembered, 16 rounds or more', '#D0ECE3', '#0A4839'],
  refused: ['refused', '#D55E00', '#F0803C'],
  error: ['error', '#882255', '#C9548F'],
  restarted: ['restarted, represented by nobody', '#4B5563', '#9AA4B2'],
  missing: ['no answer, represented by nobody', '#6B7280', '#7C8796'],
  unavailable: ['not reachable, represented by nobody', '#B4BBC5', '#4A535E'],
  unwanted: ['not wanted, represented by nobody', '#E7EAEE', '#2A3138'],
  absent: ['not there yet', 'transparent', 'transparent'],
  unknown: ['unknown', '#000000', '#FFFFFF'],
};
const SILENT = {
  unavailable: 'unavailable',
  missing: 'missing',
  restarted: 'restarted',
  'not wanted': 'unwanted',
  came: 'came',
};

export function classOf(cell) {
  const outcome = OUTCOMES[(cell & 15) - 1],
    voice = cell >> 4;
  if (cell === 0) return 'absent';
  if (outcome === undefined) return 'unknown';
  if (outcome === 'refused' || outcome === 'error' || outcome === 'late') return outcome;
  if (voice >= REMEMBERED) return `memory${Math.min(voice - REMEMBERED, AGES.length - 1)}`;
  if (voice === 2) return 'friend';
  if (voice === 3) return 'mixture';
  return SILENT[outcome];
}

// The same without regard to who spoke: only the outcome of the client itself.
export function outcomeClassOf(cell) {
  const outcome = OUTCOMES[(cell & 15) - 1];
  if (cell === 0) return 'absent';
  if (outcome === undefined) return 'unknown';
  return SILENT[outcome] ?? outcome;
}

export function wordsOf(cell) {
  if (cell === 0) return 'not there yet';
  const outcome = OUTCOMES[(cell & 15) - 1] ?? 'unknown',
    voice = cell >> 4;
  if (voice === 1) return outcome;
  const speaker =
    voice >= REMEMBERED
      ? `its own update remembered, ${AGES[Math.min(voice - REMEMBERED, AGES.length - 1)]} old`
      : VOICES[voice];
  return `${outcome}; represented by ${speaker}`;
}

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

export function colourOf(kind) {
  return CLASSES[kind][isDark() ? 2 : 1];
}

export function wordsOfClass(kind) {
  return CLASSES[kind][0];
}

export const ALL_CLASSES = Object.keys(CLASSES);

// 256 colours as the bytes of ImageData, little-endian: alpha, blue, green, red.
export function palette(classify) {
  const colours = new Uint32Array(256);
  for (let cell = 0; cell < 256; cell++) {
    const colour = colourOf(classify(cell));
    if (colour === 'transparent') continue;
    const rgb = parseInt(colour.slice(1), 16);
    colours[cell] = ((0xff << 24) | ((rgb & 255) << 16) | (((rgb >> 8) & 255) << 8) | (rgb >> 16)) >>> 0;
  }
  return colours;
}
