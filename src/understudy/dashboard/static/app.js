// Which page is shown: addresses are real, so that links can be sent and the back button works.

import { announce, button, h, replace } from './dom.js';
import { show as overview } from './overview.js';
import { show as run } from './run.js';
import { show as federation } from './federation.js';
import { show as compare } from './compare.js';

const PAGES = [
  [/^\/$/, overview],
  [/^\/runs\/(\w+)$/, run],
  [/^\/federations\/(\w+)$/, federation],
  [/^\/compare(?:\/(\w+))?$/, compare],
];
const STATES = { live: 'live', lost: 'connection lost, trying again' };
const main = document.getElementById('main');
let close = () => {};

export function navigate(address, { keep = false } = {}) {
  if (keep) history.replaceState(null, '', address);
  else history.pushState(null, '', address);
  open(true);
}

function state(words) {
  const place = document.getElementById('connection');
  place.textContent = STATES[words] ?? '';
  place.className = words;
}

async function open(byHand) {
  close();
  close = () => {};
  const found = PAGES.map(([pattern, show]) => [pattern.exec(location.pathname), show]).find(
    ([match]) => match,
  );
  const context = {
    root: main,
    id: found?.[0][1],
    query: new URLSearchParams(location.search),
    state,
    navigate,
    title: (words) => {
      document.title = words ? `${words} – Understudy` : 'Understudy';
    },
    failed: (error) => failure(error),
  };
  for (const link of document.querySelectorAll('nav a')) {
    const isHere = link.pathname === location.pathname;
    if (isHere) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  state(''); // pages that are told of news say so themselves
  replace(main, h('p', { class: 'quiet' }, 'Loading…'));
  if (byHand) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  if (!found) return failure(new Error('There is no such page.'));
  let isOpen = true;
  close = () => {
    isOpen = false;
  };
  try {
    const closing = await found[1](context);
    if (isOpen) close = closing ?? (() => {});
    else closing?.();
    if (byHand) announce(document.title);
  } catch (error) {
    if (isOpen) failure(error);
  }
}

function failure(error) {
  replace(
    main,
    h('h1', {}, 'This cannot be shown'),
    h('p', { class: 'alarm', role: 'alert' }, error.message),
    h(
      'p',
      {},
      button('Try again', () => open(true)),
      ' ',
      h('a', { href: '/' }, 'Overview'),
    ),
  );
}

document.addEventListener('click', (event) => {
  const link = event.target.closest?.('a[href]');
  if (!link || link.origin !== location.origin || (link.hash && link.pathname === location.pathname)) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
});
addEventListener('popstate', () => open(true));

// -- light and dark --------------------------------------------------------------------------------

const THEMES = ['system', 'light', 'dark'];
const toggle = document.getElementById('theme');
let theme = localStorage.getItem('understudy-theme') ?? 'system';

function themed(isNew) {
  toggle.textContent = `Theme: ${theme}`;
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  if (isNew) dispatchEvent(new Event('themed'));
}
toggle.addEventListener('click', () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  localStorage.setItem('understudy-theme', theme);
  themed(true);
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () =>
  dispatchEvent(new Event('themed')),
);

themed(false);
open(false);
