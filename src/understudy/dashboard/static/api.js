// What the server is asked, and its answers: JSON, or columns of numbers as bytes.

import { unpacked } from './wire.js';

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
