// Elements from plain values. Text only ever becomes a text node: names come from clients and
// files, and nothing in them may turn into markup.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'class') element.className = value;
    else if (name in element && typeof value !== 'string') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

// As `replace`, but what stays the same stays: a reader's place, an opened detail and the focus
// survive news.
export function redraw(element, ...children) {
  const had = element.contains(document.activeElement) ? document.activeElement : null;
  patch(element, append(document.createElement(element.tagName), children));
  if (had && !had.isConnected) {
    const same = (one) => one.textContent === had.textContent && one.href === had.href;
    [...element.querySelectorAll(had.tagName)].find(same)?.focus({ preventScroll: true });
  }
  return element;
}

// These have no listeners of their own; all others are replaced as a whole where they differ.
const INNER = new Set(['DIV', 'TABLE', 'THEAD', 'TBODY', 'TR', 'UL', 'DL', 'SECTION', 'DETAILS']);

function patch(element, wanted) {
  const before = [...element.childNodes],
    fresh = [...wanted.childNodes];
  fresh.forEach((one, at) => {
    const old = before[at];
    if (!old) return void element.append(one);
    if (one.nodeName === 'DETAILS' && old.nodeName === 'DETAILS') one.open = old.open;
    if (old.isEqualNode(one)) return;
    if (INNER.has(one.nodeName) && old.cloneNode().isEqualNode(one.cloneNode())) patch(old, one);
    else old.replaceWith(one);
  });
  for (const one of before.slice(fresh.length)) one.remove();
}

// A name of somebody's: set apart, so that right-to-left letters turn nothing around them, and
// cut by the style sheet where it is long.
export function name(text, tag = 'bdi') {
  const words = String(text);
  return h(
    tag,
    {
      class: 'name',
      dir: tag === 'bdi' ? null : 'auto',
      title: words.length > 24 ? words.slice(0, 400) : null,
    },
    words,
  );
}

// A sentence of somebody's, such as the reason of a refusal: not cut, and set apart.
export function said(words) {
  return h('bdi', {}, String(words));
}

export function announce(words) {
  document.getElementById('announcer').textContent = words;
}

export function table(caption, heads, rows, options = {}) {
  const head = heads.map((one) =>
    h('th', { scope: 'col', class: one.right ? 'number' : null }, one.text ?? one),
  );
  return h(
    'div',
    { class: 'wide', tabindex: '0', role: 'region', 'aria-label': caption },
    h(
      'table',
      { class: options.class },
      h('caption', { class: options.captioned ? null : 'unseen' }, caption),
      h('thead', {}, h('tr', {}, head)),
      h('tbody', {}, rows),
    ),
  );
}

export function button(words, act, properties = {}) {
  return h('button', { type: 'button', onclick: act, ...properties }, words);
}
