// What the server is asked, and its answers: JSON, or columns of numbers as bytes.

export class Unreadable extends Error {}

async function asked(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== '') query.append(name, one);
    }
  }
  const address = query.size ? `${path}?${query}` : path;
  const answer = await fetch(address, { credentials: 'same-origin' });
  if (answer.status === 401)
    throw new Error('The server no longer knows this page. Open the address it printed.');
  const isJson = (answer.headers.get('content-type') ?? '').includes('json');
  if (isJson) {
    const found = await answer.json();
    if (found.unreadable) throw new Unreadable(found.error);
    if (!answer.ok) throw new Error(found.error ?? `The server answered ${answer.status}.`);
    return found;
  }
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  return unpacked(await answer.arrayBuffer());
}

export const get = asked;

const KINDS = { Uint8Array, Int32Array, Float32Array };

// 4 bytes: the length of the head; the head, in JSON; arrays at multiples of 8 bytes.
export function unpacked(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const begin = Math.ceil((4 + length) / 8) * 8;
  const arrays = {},
    shapes = {};
  for (const { name, kind, shape, offset } of head.fields) {
    const size = shape.reduce((a, b) => a * b, 1);
    arrays[name] = new KINDS[kind](buffer, begin + offset, size);
    shapes[name] = shape;
  }
  return { ...head, arrays, shapes };
}
