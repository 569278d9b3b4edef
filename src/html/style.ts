/**
 * The one style sheet of our pages. Sizes step by a quarter of the text size, colours are named for their meaning, and
 * each has 4.5:1 against what it stands on, in both themes. `/ops/design` shows every part in every state.
 *
 * Words are never broken inside: `overflow-wrap: anywhere` would let a table shrink its columns to single letters
 * before it scrolls. Only names of unknown length (`.mono`, h1) may break.
 */
export const STYLE = `
:root { color-scheme: light dark; --text: #16191d; --dim: #545e6b; --line: #dde1e6; --edge: #8a94a0; --page: #fff; --card: #f6f7f9; --link: #0b57b0; --alert: #a3260f; --alert-back: #fdf0ed; --good: #1c6b34; --good-back: #eef7f0; --warn: #7a5200; --warn-back: #fdf6e7; --proved: #2f8f52; --open: #9db4c8; --gap: #c2371c; --late: #b98a1d; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e7eaee; --dim: #a3adb9; --line: #2f363f; --edge: #6d7885; --page: #111418; --card: #1a1e24; --link: #86b7fa; --alert: #ff9b85; --alert-back: #2b1713; --good: #7fd49a; --good-back: #13241a; --warn: #f0c36a; --warn-back: #282010; --proved: #43a868; --open: #4b6074; --gap: #ff7a5c; --late: #d9ae4a; }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0 auto; padding: 0 1rem 2rem; max-width: 90rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); overflow-wrap: break-word; }
.mono, h1, code, pre, .name { overflow-wrap: anywhere; }
time, .nowrap { white-space: nowrap; }
header.top { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; align-items: center; border-bottom: 1px solid var(--line); margin: 0 -1rem; padding: 0.5rem 1rem; }
header.top nav ul, .views ul { display: flex; flex-wrap: wrap; gap: 0.25rem; margin: 0; padding: 0; list-style: none; }
header.top nav a, .views a { display: block; padding: 0.25rem 0.625rem; border-radius: 6px; color: var(--dim); text-decoration: none; }
header.top nav a:hover, .views a:hover { color: var(--text); background: var(--card); }
header.top nav a[aria-current], .views a[aria-current] { color: var(--text); background: var(--card); font-weight: 600; box-shadow: inset 0 -2px var(--link); }
header.top > .name { font-weight: 700; color: var(--text); text-decoration: none; padding: 0.25rem 0; }
header.top form { display: flex; gap: 0.375rem; }
header.top .search { flex: 1 1 14rem; max-width: 24rem; margin-left: auto; }
header.top .search input { flex: 1; min-width: 0; }
.who { color: var(--dim); font-size: 0.875rem; margin-left: auto; }
.search + .who { margin-left: 0; }
.skip { position: absolute; left: -999rem; }
.skip:focus { left: 1rem; top: 0.25rem; background: var(--page); padding: 0.25rem 0.5rem; z-index: 3; }
.as-of { float: right; color: var(--dim); font-size: 0.875rem; margin: 1.1rem 0 0 1rem; font-variant-numeric: tabular-nums; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 1rem 0 0.5rem; letter-spacing: -0.01em; }
h2 { font-size: 1.125rem; margin: 1.75rem 0 0.5rem; }
h3 { font-size: 1rem; margin: 0; }
p { margin: 0.25rem 0; max-width: 75ch; }
main > form { margin: 0.5rem 0; }
a { color: var(--link); text-underline-offset: 0.15em; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; border-radius: 2px; }
input, select, button, textarea, a.button { font: inherit; color: inherit; background: var(--page); border: 1px solid var(--edge); border-radius: 6px; padding: 0.25rem 0.625rem; max-width: 100%; min-height: 2.125rem; }
select { min-width: 8rem; }
button, a.button { background: var(--card); cursor: pointer; text-decoration: none; display: inline-block; white-space: nowrap; }
button:hover, a.button:hover { border-color: var(--text); }
button.main { background: var(--link); border-color: var(--link); color: var(--page); font-weight: 600; }
button:disabled { color: var(--dim); border-style: dashed; cursor: not-allowed; }
button.plain { border: 0; padding: 0 0.25rem; min-height: 1.5rem; background: none; color: var(--link); text-decoration: underline; }
input[type=checkbox] { width: 1.125rem; height: 1.125rem; min-height: 0; margin: 0; accent-color: var(--link); }
form.row, .row { display: flex; flex-wrap: wrap; gap: 0.5rem 0.75rem; align-items: end; margin: 0.5rem 0; }
.row label { display: grid; grid-template-columns: minmax(0, auto); max-width: 100%; font-size: 0.875rem; color: var(--dim); }
.row label > * { color: var(--text); font-size: 1rem; }
.row label > span { color: inherit; font-size: inherit; display: inline; }
.row .grow { flex: 1 1 12rem; max-width: 34rem; }
fieldset { border: 0; padding: 0; margin: 0.5rem 0; display: flex; flex-wrap: wrap; gap: 0 1rem; }
legend { float: left; width: 100%; padding: 0; font-size: 0.875rem; color: var(--dim); }
.check { display: inline-flex; gap: 0.4rem; align-items: center; min-height: 1.75rem; }
.filter details { border: 1px solid var(--line); border-radius: 8px; padding: 0.25rem 0.75rem; margin: 0.5rem 0; }
.filter details > button { margin: 0.25rem 0 0.5rem; }
.views { margin: 0.5rem 0; clear: both; }
.above { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; margin: 0.75rem 0 0.25rem; }
.above p { color: var(--dim); font-size: 0.875rem; }
.paging { display: flex; gap: 0.5rem; margin: 0.75rem 0; }
.empty { color: var(--dim); padding: 1.5rem 1rem; border: 1px dashed var(--line); border-radius: 8px; max-width: none; text-align: center; }
ul.cards { list-style: none; margin: 0; padding: 0; display: grid; gap: 0.75rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 16rem), 1fr)); }
ul.cards > li { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 0.75rem 1rem; }
ul.plain { list-style: none; margin: 0; padding: 0; }
dl { margin: 0.25rem 0 0; }
dt { color: var(--dim); font-size: 0.875rem; margin-top: 0.5rem; }
dd { margin: 0; font-variant-numeric: tabular-nums; min-width: 0; }
dl.facts { display: flex; flex-wrap: wrap; gap: 0.5rem 2rem; }
dl.facts > div { min-width: 0; }
dl.facts dt { margin-top: 0; }
p.number { font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.dim { color: var(--dim); font-size: 0.875rem; }
.alert { color: var(--alert); font-weight: 600; }
.good { color: var(--good); font-weight: 600; }
.warn { color: var(--warn); font-weight: 600; }
.verdict { font-weight: 600; }
.hidden-text { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.mono { font-family: ui-monospace, monospace; font-size: 0.9em; }
.wide { overflow-x: auto; position: relative; }
table { border-collapse: collapse; width: 100%; font-size: 0.9375rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: baseline; padding: 0.375rem 0.75rem 0.375rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
td.sentence { white-space: normal; min-width: 16rem; }
.endpoint td { white-space: normal; }
td.number, th.number { text-align: right; }
.number + td, .number + th { padding-left: 0.75rem; }
tbody tr:hover { background: var(--card); }
th { font-size: 0.8125rem; color: var(--dim); font-weight: 600; }
td a, th a { display: inline-block; min-width: 1.5rem; min-height: 1.5rem; }
td a.name { font-weight: 600; overflow-wrap: normal; }
ol.timeline { list-style: none; margin: 0; padding: 0; }
ol.timeline > li { display: grid; grid-template-columns: 18rem 18rem minmax(0, 1fr); grid-template-rows: auto 1fr; gap: 0 1rem; padding: 0.5rem 0; border-top: 1px solid var(--line); }
ol.timeline .decision { grid-column: 3; }
ol.timeline .clock { grid-row: 1 / span 2; font-variant-numeric: tabular-nums; }
ol.timeline .clock p { margin: 0; }
ol.timeline > li.heading { border-top: 0; padding: 0; font-size: 0.875rem; color: var(--dim); font-weight: 600; }
ul.diff { list-style: none; margin: 0.25rem 0; padding: 0 0 0 0.75rem; border-left: 3px solid var(--line); }
.badge { font-size: 0.75rem; font-weight: 600; border: 1px solid var(--edge); border-radius: 999px; padding: 0.05rem 0.5rem; vertical-align: 0.1em; white-space: nowrap; }
#verdict { position: sticky; top: 0; z-index: 2; background: var(--page); clear: both; padding: 0.25rem 0; }
.verdict-line { font-size: 1.125rem; margin: 0; padding: 0.5rem 0.75rem; border-left: 4px solid var(--proved); background: var(--good-back); border-radius: 0 8px 8px 0; max-width: none; }
.verdict-line.neither { border-left-color: var(--open); background: var(--card); }
.verdict-line.warning { border-left-color: var(--warn); background: var(--warn-back); }
.verdict-line.critical { border-left-color: var(--alert); background: var(--alert-back); }
ul.tiles { list-style: none; margin: 0.5rem 0; padding: 0; display: grid; gap: 0.5rem; grid-template-columns: repeat(4, minmax(0, 1fr)); }
.tiles > li { border: 1px solid var(--line); border-top: 4px solid var(--proved); border-radius: 8px; padding: 0.5rem 0.75rem; background: var(--card); }
.tiles > li.warning { border-top-color: var(--warn); background: var(--warn-back); }
.tiles > li.critical { border-top-color: var(--alert); background: var(--alert-back); }
.tiles > li, .verdict-line { color: var(--text); font-weight: 400; }
.tiles h2, .tiles h3 { font-size: 0.875rem; font-weight: 600; color: var(--dim); margin: 0; }
.tiles .answer a { font-size: 1.25rem; font-weight: 700; line-height: 1.3; text-decoration: none; color: var(--good); }
.tiles > li.neither { border-top-color: var(--open); }
.tiles .neither .answer a { color: var(--text); }
.tiles .warning .answer a { color: var(--warn); }
.tiles .critical .answer a { color: var(--alert); }
.tiles .answer a:hover { text-decoration: underline; }
.troubles > li { margin: 0.5rem 0; padding: 0.5rem 0.75rem; border-left: 4px solid var(--warn); background: var(--warn-back); border-radius: 0 8px 8px 0; }
.troubles > li.critical { border-left-color: var(--alert); background: var(--alert-back); }
section.source, details.source { border-top: 1px solid var(--line); margin-top: 1rem; clear: both; }
details.source > summary { font-weight: 600; padding: 0.5rem 0; }
details.source > h3 { margin: 1rem 0 0.25rem; }
section.source > h2 { font-size: 1.125rem; margin: 0.75rem 0 0.5rem; }
section.source > h3 { margin: 1rem 0 0.25rem; }
h3 > .dim, h2 > .dim, h1 > .dim { font-weight: 400; font-size: 0.875rem; letter-spacing: 0; }
ul.cards .number a { text-decoration: none; font-weight: 600; }
ul.cards .number a:hover, ul.cards .number a:focus-visible { text-decoration: underline; }
.cards h3 { color: var(--dim); font-size: 0.9375rem; }
pre { font: 0.8125rem/1.4 ui-monospace, monospace; background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 0.5rem 0.75rem; margin: 0.25rem 0; white-space: pre-wrap; }
pre.signed { white-space: pre-wrap; overflow-wrap: anywhere; }
section.endpoint { margin: 0.75rem 0 1.75rem; }
h3.inline { display: inline; }
code { font-family: ui-monospace, monospace; font-size: 0.875em; background: var(--card); border: 1px solid var(--line); border-radius: 3px; padding: 0 0.25em; }
.key { display: inline-block; width: 0.8em; height: 0.8em; vertical-align: -0.05em; margin-left: 0.5rem; forced-color-adjust: none; }
.key:first-child { margin-left: 0; }
.key.proved { background: var(--proved); }
.key.open { background: var(--open); }
.key.gap { background: var(--gap); }
.key.breach { background: var(--alert); border-top: 0.25em solid var(--text); }
.key.before { background: var(--line); }
.key.late { background: var(--late); }
.key.used { background: var(--link); }
.key.p50, .key.p95, .key.p99, .key.limit { width: 1.5em; height: 0; border-top: 2px solid var(--link); vertical-align: 0.25em; }
.key.p95 { border-top-style: dashed; }
.key.p99 { border-top-style: dotted; }
.key.limit { border-top: 2px dashed var(--dim); }
.tasks > li { padding: 0.25rem 0; }
meter { width: 6rem; vertical-align: middle; }
progress { width: min(14rem, 100%); accent-color: var(--link); vertical-align: middle; }
#trends { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 36rem), 1fr)); gap: 0.5rem 2rem; }
.trend { min-width: 0; }
.trend > h3 { margin: 0.25rem 0; }
.trend > details { margin-top: 0.5rem; }
.plot { margin: 0 0 0.5rem; }
.plot figcaption { display: flex; flex-wrap: wrap; gap: 0 0.75rem; font-size: 0.8125rem; color: var(--dim); }
.plot figcaption strong { color: var(--text); }
.plot output { margin-left: auto; font-variant-numeric: tabular-nums; color: var(--text); }
.plot .key { margin-left: 0; }
.chart { display: grid; grid-template-columns: 3.75rem minmax(0, 1fr); gap: 0.5rem; }
.scale { display: flex; flex-direction: column; justify-content: space-between; text-align: right; font-size: 0.75rem; line-height: 1; color: var(--dim); font-variant-numeric: tabular-nums; }
.plot svg { width: 100%; height: 4rem; display: block; border-bottom: 1px solid var(--edge); }
.plot svg.thin { height: 1.25rem; }
.plot svg .proved { fill: var(--proved); }
.plot svg .late { fill: var(--late); }
.plot svg .gap { fill: var(--gap); }
.plot svg .breach { fill: var(--alert); }
.plot svg .open { fill: var(--open); }
.plot svg .before { fill: var(--line); }
.plot svg .used { fill: var(--link); }
.plot .line { fill: none; stroke: var(--link); stroke-width: 2; vector-effect: non-scaling-stroke; }
.plot .p95 { stroke-dasharray: 6 3; }
.plot .p99 { stroke-dasharray: 2 3; }
.plot .limit { stroke: var(--dim); stroke-width: 1; stroke-dasharray: 6 3; }
.plot .grid { fill: none; stroke: var(--line); opacity: 0.6; vector-effect: non-scaling-stroke; }
.plot .hit { fill: transparent; }
.plot .mark { fill: var(--text); opacity: 0.15; pointer-events: none; }
.time-axis { width: 100%; height: 1.25rem; overflow: visible; }
.time-axis text { fill: var(--dim); font-size: 0.75rem; font-variant-numeric: tabular-nums; }
tr.marked td { background: var(--card); }
.actions { display: flex; flex-wrap: wrap; gap: 0.5rem 0.75rem; align-items: end; }
details > summary { cursor: pointer; min-height: 1.5rem; }
ol.tail { list-style: none; margin: 0; padding: 0; font-variant-numeric: tabular-nums; }
ol.tail > li { padding: 0.2rem 0; border-bottom: 1px solid var(--line); display: flex; flex-wrap: wrap; gap: 0 0.75rem; align-items: baseline; }
ol.tail .via { min-width: 4.5rem; }
ol.tail .order { min-width: 11rem; }
ol.tail .verdict { min-width: 6.5rem; }
ol.track { list-style: none; display: flex; margin: 0.75rem 0; padding: 0; clear: both; }
.track li { flex: 1 1 0; border-top: 4px solid var(--line); padding: 0.5rem 0.75rem 0 0; min-width: 0; }
.track .step { display: block; }
.track .past, .track .current { border-top-color: var(--proved); }
.track .current .step { font-weight: 700; }
.track .ahead .step { color: var(--dim); }
.track .cancelled { border-top-color: var(--alert); }
.verified { font-size: 1.05rem; margin: 0.75rem 0; }
.times { max-width: 42rem; margin: 0.5rem 0 1rem; }
@media print { header.top, .skip { display: none; } }
@media (max-width: 56rem) {
  .as-of { float: none; margin: 0.5rem 0 0; }
}
@media (max-width: 44rem) {
  a.button { white-space: normal; }
  ul.tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .tiles .answer a { font-size: 1.0625rem; }
  .verdict-line { font-size: 1rem; }
  ol.track { display: block; }
  .track li { border-top: 0; border-left: 4px solid var(--line); padding: 0.1rem 0 0.5rem 0.75rem; }
  .track .past, .track .current { border-left-color: var(--proved); }
  .track .cancelled { border-left-color: var(--alert); }
  h1 { margin-top: 0.5rem; font-size: 1.375rem; }
  .who { margin-left: 0; }
  header.top nav { order: 1; flex-basis: 100%; }
  header.top .search { order: 2; max-width: none; flex-basis: 100%; margin-left: 0; }
  ol.timeline > li { grid-template-columns: 1fr 1fr; grid-template-rows: none; }
  ol.timeline .clock { grid-row: auto; }
  ol.timeline .clock time { white-space: normal; }
  ol.timeline .decision { grid-column: 1 / -1; }
  ol.timeline > li.heading .decision { display: none; }
  ol.tail .order, ol.tail .via, ol.tail .verdict { min-width: 0; }
  table.cards, table.cards tbody { display: block; }
  table.cards thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table.cards tr { display: block; border: 1px solid var(--line); border-radius: 8px; margin: 0 0 0.5rem; padding: 0.5rem 0.75rem; }
  table.cards td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: 0.1rem 0; white-space: normal; text-align: right; }
  table.cards td::before { content: attr(data-label); color: var(--dim); white-space: nowrap; text-align: left; }
  table.cards td.sentence { min-width: 0; }
  table.cards td .name { overflow-wrap: anywhere; }
}
@media (forced-colors: active) {
  :root { --proved: CanvasText; --open: GrayText; --before: GrayText; --line: GrayText; --gap: Highlight; --late: LinkText; --link: LinkText; --alert: Highlight; --text: CanvasText; --dim: CanvasText; }
}
@media print {
  .key, .verdict-line, .tiles > li { print-color-adjust: exact; }
  .trend { break-inside: avoid; }
  header.top, form, .views, .paging, button { display: none; }
  .as-of { float: none; }
}
`;
