// Numbers and times in words.

export const NOTHING = '–';

export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return NOTHING;
  if (Number.isInteger(value)) return value.toLocaleString('en');
  return Number(value.toPrecision(digits)).toString().replace('-', '−');
}

export function percent(share, digits = 0) {
  return share === null || share === undefined || Number.isNaN(share)
    ? NOTHING
    : `${(100 * share).toFixed(digits)} %`;
}

export function seconds(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value < 90) return `${Math.round(value)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  if (value < 129600) return `${(value / 3600).toFixed(1)} h`;
  return `${(value / 86400).toFixed(1)} days`;
}

export function ago(when) {
  if (!when) return NOTHING;
  const since = Date.now() / 1000 - when;
  return since < 5 ? 'just now' : `${seconds(since)} ago`;
}

export function count(n, one, many = `${one}s`) {
  return `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
}

// Rounds are counted from 1 for people, from 0 in files: the page says what `show` and Flower say.
export function round(t) {
  return `round ${t + 1}`;
}

export function labels(run) {
  const told = Object.entries(run.labels ?? {}).filter(
    ([key, value]) => key !== 'strategy' && value !== null,
  );
  return told.map(([key, value]) => `${key} ${value}`).join(', ');
}

// The pace at which a list may be told of changes.
export function throttled(act, pause = 250) {
  let timer = null,
    again = false;
  const run = async () => {
    again = false;
    await act();
    timer = setTimeout(() => {
      timer = null;
      if (again) call();
    }, pause);
  };
  const call = () => {
    again = true;
    if (timer === null) {
      timer = 0;
      run();
    }
  };
  call.stop = () => {
    clearTimeout(timer);
    timer = -1;
  };
  return call;
}
