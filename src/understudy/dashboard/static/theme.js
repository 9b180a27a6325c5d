// Before the first paint, so that a page does not flash in the other theme.
const chosen = localStorage.getItem('understudy-theme');
if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
