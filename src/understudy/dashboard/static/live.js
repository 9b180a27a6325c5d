// News from the server, for as long as a page is looked at. Whoever connects, or connects again, is
// told how everything is now: so nothing is lost with a connection.

const RETRY = 2000;

export function live(runs, onChanged, onState) {
  let source = null,
    timer = null,
    closed = false;

  function open() {
    if (closed || source) return;
    const query = runs ? `?runs=${runs.map(encodeURIComponent).join(',')}` : '';
    source = new EventSource(`/api/events${query}`);
    source.addEventListener('open', () => onState('live'));
    source.addEventListener('changed', (event) => onChanged(JSON.parse(event.data)));
    source.addEventListener('error', () => {
      onState('lost');
      shut(); // browsers give up after some errors; this page does not
      timer = setTimeout(open, RETRY);
    });
  }

  function shut() {
    clearTimeout(timer);
    source?.close();
    source = null;
  }

  // A browser has six connections to a server: pages nobody looks at give theirs back.
  function seen() {
    if (document.hidden) shut();
    else open();
  }

  document.addEventListener('visibilitychange', seen);
  open();
  return () => {
    closed = true;
    shut();
    document.removeEventListener('visibilitychange', seen);
  };
}
