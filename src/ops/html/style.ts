/** The one style sheet of our pages. */
export const STYLE = `
:root { color-scheme: light dark; --text: #1a1d21; --dim: #566070; --line: #d5dae0; --page: #fff; --card: #f6f7f9; --link: #0b57b0; --alert: #a3260f; --good: #1c6b34; --warn: #7a5200; --proved: #2f8f52; --open: #9db4c8; --gap: #c2371c; --late: #b98a1d; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e7eaee; --dim: #a3adb9; --line: #353c45; --page: #14171b; --card: #1c2026; --link: #86b7fa; --alert: #ff9b85; --good: #7fd49a; --warn: #f0c36a; --proved: #43a868; --open: #4b6074; --gap: #ff7a5c; --late: #d9ae4a; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 0.75rem 1rem 2rem; max-width: 76rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); overflow-wrap: anywhere; }
header.top { display: flex; flex-wrap: wrap; gap: 0.5rem 1.25rem; align-items: center; border-bottom: 1px solid var(--line); padding-bottom: 0.5rem; }
header.top nav ul { display: flex; flex-wrap: wrap; gap: 0 1rem; margin: 0; padding: 0; list-style: none; }
header.top .name { font-weight: 700; }
header.top form { display: flex; gap: 0.375rem; }
header.top .search { flex: 1 1 16rem; max-width: 26rem; margin-left: auto; }
header.top .search input { flex: 1; min-width: 0; }
.skip { position: absolute; left: -999rem; }
.skip:focus { left: 1rem; top: 0.25rem; background: var(--page); padding: 0.25rem 0.5rem; z-index: 1; }
h1 { font-size: 1.25rem; margin: 1rem 0 0.25rem; }
h2 { font-size: 1rem; margin: 1.5rem 0 0.5rem; }
h3 { font-size: 1rem; margin: 0; }
p { margin: 0.25rem 0; }
main > form { margin: 0.5rem 0; }
a { color: var(--link); text-underline-offset: 0.15em; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; border-radius: 2px; }
input, select, button, textarea { font: inherit; color: inherit; background: var(--page); border: 1px solid var(--dim); border-radius: 4px; padding: 0.2rem 0.5rem; max-width: 100%; }
button { background: var(--card); cursor: pointer; }
button.plain { border: 0; padding: 0; background: none; color: var(--link); text-decoration: underline; }
form.row { display: flex; flex-wrap: wrap; gap: 0.5rem 0.75rem; align-items: end; margin: 0.5rem 0; }
form.row label { display: grid; grid-template-columns: minmax(0, auto); max-width: 100%; font-size: 0.875rem; }
ul.cards { list-style: none; margin: 0; padding: 0; display: grid; gap: 0.75rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 16rem), 1fr)); }
ul.cards > li { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 0.75rem 1rem; }
ul.cards > li.trouble { border-color: var(--alert); }
ul.plain { list-style: none; margin: 0; padding: 0; }
dl { margin: 0.25rem 0 0; }
dt { color: var(--dim); font-size: 0.875rem; margin-top: 0.5rem; }
dd { margin: 0; font-variant-numeric: tabular-nums; }
dl.facts { display: flex; flex-wrap: wrap; gap: 0.25rem 1.5rem; }
dl.facts dt { margin-top: 0; }
.number { font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.dim { color: var(--dim); font-size: 0.875rem; }
.alert { color: var(--alert); font-weight: 600; }
.good { color: var(--good); font-weight: 600; }
.warn { color: var(--warn); font-weight: 600; }
.verdict { font-weight: 600; }
.hidden-text { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.mono { font-family: ui-monospace, monospace; font-size: 0.9em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.75rem 0.25rem 0; border-bottom: 1px solid var(--line); }
th { font-size: 0.875rem; color: var(--dim); font-weight: 600; }
ol.timeline { list-style: none; margin: 0; padding: 0; }
ol.timeline > li { display: grid; grid-template-columns: 11.5rem 11.5rem 1fr; grid-template-rows: auto 1fr; gap: 0 1rem; padding: 0.5rem 0; border-top: 1px solid var(--line); }
ol.timeline .decision { grid-column: 3; }
ol.timeline .clock { grid-row: 1 / span 2; font-variant-numeric: tabular-nums; }
ol.timeline .clock p { margin: 0; }
ol.timeline > li.heading { border-top: 0; padding: 0; font-size: 0.875rem; color: var(--dim); font-weight: 600; }
ul.diff { list-style: none; margin: 0.25rem 0; padding: 0 0 0 0.75rem; border-left: 3px solid var(--line); }
.badge { font-size: 0.75rem; font-weight: 600; border: 1px solid var(--dim); border-radius: 999px; padding: 0.05rem 0.5rem; vertical-align: 0.1em; }
.summary-line { font-size: 1.05rem; margin: 0.75rem 0; padding: 0.5rem 0.75rem; border-left: 4px solid var(--proved); background: var(--card); }
.troubles > li { margin: 0.5rem 0; padding: 0.5rem 0.75rem; border-left: 4px solid var(--warn); background: var(--card); }
.troubles > li.critical { border-left-color: var(--alert); }
section.source { border-top: 1px solid var(--line); margin-top: 1rem; }
section.source > h2 { font-size: 1.125rem; margin: 0.75rem 0 0.5rem; }
section.source > h3 { margin: 1rem 0 0.25rem; }
h3 > .dim, h2 > .dim, h1 > .dim { font-weight: 400; font-size: 0.875rem; }
.cards .number a { text-decoration: none; font-weight: 600; }
.cards .number a:hover, .cards .number a:focus-visible { text-decoration: underline; }
.cards h3 { color: var(--dim); font-size: 0.9375rem; }
pre { font: 0.8125rem/1.4 ui-monospace, monospace; background: var(--card); border: 1px solid var(--line); border-radius: 4px; padding: 0.5rem 0.75rem; margin: 0.25rem 0; white-space: pre-wrap; }
section.endpoint { margin: 0.75rem 0 1.75rem; }
h3.inline { display: inline; }
code { font-family: ui-monospace, monospace; font-size: 0.875em; background: var(--card); border: 1px solid var(--line); border-radius: 3px; padding: 0 0.25em; }
.strip { display: flex; gap: 1px; align-items: flex-end; height: 1.75rem; margin: 0.25rem 0; }
.strip span { flex: 1 1 0; min-width: 0; height: 1.25rem; }
.key { display: inline-block; width: 0.8em; height: 0.8em; vertical-align: -0.05em; margin-left: 0.5rem; }
.key:first-child { margin-left: 0; }
.strip .proved, .key.proved { background: var(--proved); }
.strip .open, .key.open { background: var(--open); }
.strip .breach, .key.breach { background: var(--alert); height: 1.75rem; border-top: 0.5rem solid var(--text); }
.key.breach { height: 0.8em; border-top-width: 0.25em; }
.strip .gap, .key.gap { background: var(--gap); height: 1.75rem; }
.key.gap { height: 0.8em; }
.strip .before, .key.before { background: var(--line); }
.strip .before { height: 0.5rem; }
.tasks > li { padding: 0.25rem 0; }
meter { width: 6rem; vertical-align: middle; }
progress { width: min(14rem, 100%); accent-color: var(--link); vertical-align: middle; }
.trend { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 0.25rem 1.5rem; margin-bottom: 0.75rem; }
.trend > * { min-width: 0; }
.trend > details { grid-column: 1 / -1; }
.plot { margin: 0; }
.plot figcaption { font-size: 0.875rem; color: var(--dim); }
.plot:not(:has(.uplot)) { display: none; }
.uplot .u-legend { font-size: 0.875rem; }
.actions { display: flex; flex-wrap: wrap; gap: 0.5rem 0.75rem; align-items: end; }
details > summary { cursor: pointer; }
ol.tail { list-style: none; margin: 0; padding: 0; font-variant-numeric: tabular-nums; }
ol.tail > li { padding: 0.2rem 0; border-bottom: 1px solid var(--line); display: flex; flex-wrap: wrap; gap: 0 0.75rem; align-items: baseline; }
ol.tail .via { min-width: 4.5rem; }
ol.tail .order { min-width: 11rem; }
ol.tail .verdict { min-width: 6.5rem; }
@media (max-width: 44rem) {
  ol.timeline > li { grid-template-columns: 1fr 1fr; grid-template-rows: none; }
  ol.timeline .clock { grid-row: auto; }
  ol.timeline .decision { grid-column: 1 / -1; }
  ol.timeline > li.heading .decision { display: none; }
  ol.tail .order, ol.tail .via, ol.tail .verdict { min-width: 0; }
  header.top .search { max-width: none; flex-basis: 100%; margin-left: 0; }
}
`;
