import { DARK, declare, LIGHT, SIZES, SPACES } from "./theme.ts";

/**
 * The one style sheet of our pages. `/ops/design` shows every part in every state.
 *
 * Words are never broken inside: `overflow-wrap: anywhere` would let a table shrink its columns to single letters
 * before it scrolls. Only names of unknown length (`.mono`, h1) may break.
 */
export const STYLE = `
:root { color-scheme: light dark; ${declare(LIGHT)} ${declare(SIZES)} ${declare(SPACES)} }
@media (prefers-color-scheme: dark) {
  :root { ${declare(DARK)} }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0 auto; padding: 0 var(--space-4) 2rem; max-width: 90rem; font: var(--size-5)/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); overflow-wrap: break-word; }
.mono, h1, code, pre, .name { overflow-wrap: anywhere; }
time, .nowrap { white-space: nowrap; }
header.top { display: flex; flex-wrap: wrap; gap: var(--space-1) 1.25rem; align-items: center; border-bottom: 1px solid var(--line); margin: 0 -1rem; padding: var(--space-2) var(--space-4); }
header.top nav ul, .views ul { display: flex; flex-wrap: wrap; gap: var(--space-1); margin: 0; padding: 0; list-style: none; }
header.top nav a, .views a { display: block; padding: var(--space-1) 0.625rem; border-radius: 6px; color: var(--dim); text-decoration: none; }
header.top nav a:hover, .views a:hover { color: var(--text); background: var(--card); }
header.top nav a[aria-current], .views a[aria-current] { color: var(--text); background: var(--card); font-weight: 600; box-shadow: inset 0 -2px var(--link); }
header.top > .name { font-weight: 700; color: var(--text); text-decoration: none; padding: var(--space-1) 0; }
header.top form { display: flex; gap: 0.375rem; }
header.top .search { flex: 1 1 14rem; max-width: 24rem; margin-left: auto; }
header.top .search input { flex: 1; min-width: 0; }
.who { color: var(--dim); font-size: var(--size-3); margin-left: auto; }
.search + .who { margin-left: 0; }
.skip { position: absolute; left: -999rem; }
.skip:focus { left: 1rem; top: 0.25rem; background: var(--page); padding: var(--space-1) var(--space-2); z-index: 3; }
.as-of { float: right; color: var(--dim); font-size: var(--size-3); margin: 1.1rem 0 0 var(--space-4); font-variant-numeric: tabular-nums; }
h1 { font-size: var(--size-10); line-height: 1.25; margin: var(--space-4) 0 var(--space-2); letter-spacing: -0.01em; }
h2 { font-size: var(--size-7); margin: 1.75rem 0 var(--space-2); }
h3 { font-size: var(--size-5); margin: 0; }
p { margin: var(--space-1) 0; max-width: 75ch; }
main > form { margin: var(--space-2) 0; }
a { color: var(--link); text-underline-offset: 0.15em; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; border-radius: 2px; }
input, select, button, a.button { font: inherit; color: inherit; background: var(--page); border: 1px solid var(--edge); border-radius: 6px; padding: var(--space-1) 0.625rem; max-width: 100%; min-height: 2.125rem; }
select { min-width: 8rem; }
button, a.button { background: var(--card); cursor: pointer; text-decoration: none; display: inline-block; white-space: nowrap; }
button:hover, a.button:hover { border-color: var(--text); }
button.main { background: var(--link); border-color: var(--link); color: var(--page); font-weight: 600; }
button:disabled { color: var(--dim); border-style: dashed; cursor: not-allowed; }
button.plain { border: 0; padding: 0 var(--space-1); min-height: 1.5rem; background: none; color: var(--link); text-decoration: underline; }
input[type=checkbox] { width: 1.125rem; height: 1.125rem; min-height: 0; margin: 0; accent-color: var(--link); }
form.row, .row { display: flex; flex-wrap: wrap; gap: var(--space-2) var(--space-3); align-items: end; margin: var(--space-2) 0; }
.row label { display: grid; grid-template-columns: minmax(0, auto); max-width: 100%; font-size: var(--size-3); color: var(--dim); }
.row label > * { color: var(--text); font-size: var(--size-5); }
.row label > span { color: inherit; font-size: inherit; display: inline; }
.row .grow { flex: 1 1 12rem; max-width: 34rem; }
fieldset { border: 0; padding: 0; margin: var(--space-2) 0; display: flex; flex-wrap: wrap; gap: 0 var(--space-4); }
legend { float: left; width: 100%; padding: 0; font-size: var(--size-3); color: var(--dim); }
.check { display: inline-flex; gap: 0.4rem; align-items: center; min-height: 1.75rem; }
.filter details { border: 1px solid var(--line); border-radius: 8px; padding: var(--space-1) var(--space-3); margin: var(--space-2) 0; }
.filter details > button { margin: var(--space-1) 0 var(--space-2); }
.views { margin: var(--space-2) 0; clear: both; }
.above { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 var(--space-4); margin: var(--space-3) 0 var(--space-1); }
.above p { color: var(--dim); font-size: var(--size-3); }
.paging { display: flex; gap: var(--space-2); margin: var(--space-3) 0; }
.empty { color: var(--dim); padding: 1.5rem var(--space-4); border: 1px dashed var(--line); border-radius: 8px; max-width: none; text-align: center; }
ul.plain { list-style: none; margin: 0; padding: 0; }
dl { margin: var(--space-1) 0 0; }
dt { color: var(--dim); font-size: var(--size-3); margin-top: var(--space-2); }
dd { margin: 0; font-variant-numeric: tabular-nums; min-width: 0; }
dl.facts { display: flex; flex-wrap: wrap; gap: var(--space-2) 2rem; }
dl.facts > div { min-width: 0; }
dl.facts dt { margin-top: 0; }
.dim { color: var(--dim); font-size: var(--size-3); }
.alert { color: var(--alert); font-weight: 600; }
.good { color: var(--good); font-weight: 600; }
.warn { color: var(--warn); font-weight: 600; }
.verdict { font-weight: 600; }
.hidden-text { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.mono { font-family: ui-monospace, monospace; font-size: 0.9em; }
.wide { overflow-x: auto; position: relative; }
table { border-collapse: collapse; width: 100%; font-size: var(--size-4); font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: baseline; padding: 0.375rem var(--space-3) 0.375rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
td.sentence { white-space: normal; min-width: 16rem; }
.endpoint td { white-space: normal; }
.endpoint td code { white-space: nowrap; }
td.number, th.number { text-align: right; }
.number + td, .number + th { padding-left: var(--space-3); }
tbody tr:hover { background: var(--card); }
th { font-size: var(--size-2); color: var(--dim); font-weight: 600; }
td a, th a { display: inline-block; min-width: 1.5rem; min-height: 1.5rem; }
td a.name { font-weight: 600; overflow-wrap: normal; }
ol.timeline { list-style: none; margin: 0; padding: 0; }
ol.timeline > li { display: grid; grid-template-columns: 18rem 18rem minmax(0, 1fr); grid-template-rows: auto 1fr; gap: 0 var(--space-4); padding: var(--space-2) 0; border-top: 1px solid var(--line); }
ol.timeline .decision { grid-column: 3; }
ol.timeline .clock { grid-row: 1 / span 2; font-variant-numeric: tabular-nums; }
ol.timeline .clock p { margin: 0; }
ol.timeline > li.heading { border-top: 0; padding: 0; font-size: var(--size-3); color: var(--dim); font-weight: 600; }
ul.diff { list-style: none; margin: var(--space-1) 0; padding: 0 0 0 var(--space-3); border-left: 3px solid var(--line); }
.badge { font-size: var(--size-1); font-weight: 600; border: 1px solid var(--edge); border-radius: 999px; padding: 0.05rem var(--space-2); vertical-align: 0.1em; white-space: nowrap; }
#verdict { position: sticky; top: 0; z-index: 2; background: var(--page); clear: both; padding: var(--space-1) 0; }
.verdict-line { font-size: var(--size-7); margin: 0; padding: var(--space-2) var(--space-3); border-left: 4px solid var(--proved); background: var(--good-back); border-radius: 0 8px 8px 0; max-width: none; }
.verdict-line.neither { border-left-color: var(--open); background: var(--card); }
.verdict-line.warning { border-left-color: var(--warn); background: var(--warn-back); }
.verdict-line.critical { border-left-color: var(--alert); background: var(--alert-back); }
ul.tiles { list-style: none; margin: var(--space-2) 0; padding: 0; display: grid; gap: var(--space-2); grid-template-columns: repeat(4, minmax(0, 1fr)); }
.tiles > li { border: 1px solid var(--line); border-top: 4px solid var(--proved); border-radius: 8px; padding: var(--space-2) var(--space-3); background: var(--card); }
.tiles > li.warning { border-top-color: var(--warn); background: var(--warn-back); }
.tiles > li.critical { border-top-color: var(--alert); background: var(--alert-back); }
.tiles > li, .verdict-line { color: var(--text); font-weight: 400; }
.tiles h2, .tiles h3 { font-size: var(--size-3); font-weight: 600; color: var(--dim); margin: 0; }
.tiles .answer a { font-size: var(--size-8); font-weight: 700; line-height: 1.3; text-decoration: none; color: var(--good); }
.tiles > li.neither { border-top-color: var(--open); }
.tiles .neither .answer a { color: var(--text); }
.tiles .warning .answer a { color: var(--warn); }
.tiles .critical .answer a { color: var(--alert); }
.tiles .answer a:hover { text-decoration: underline; }
.troubles > li { margin: var(--space-2) 0; padding: var(--space-2) var(--space-3); border-left: 4px solid var(--warn); background: var(--warn-back); border-radius: 0 8px 8px 0; }
.troubles > li.critical { border-left-color: var(--alert); background: var(--alert-back); }
section.source, details.source { border-top: 1px solid var(--line); margin-top: var(--space-4); clear: both; }
details.source > summary { font-weight: 600; padding: var(--space-2) 0; }
details.source > h3 { margin: var(--space-4) 0 var(--space-1); }
section.source > h2 { font-size: var(--size-7); margin: var(--space-3) 0 var(--space-2); }
h3 > .dim, h2 > .dim, h1 > .dim { font-weight: 400; font-size: var(--size-3); letter-spacing: 0; }
pre { font: var(--size-2)/1.4 ui-monospace, monospace; background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: var(--space-2) var(--space-3); margin: var(--space-1) 0; white-space: pre-wrap; }
.try pre { max-height: 24rem; overflow: auto; }
.try form { margin: var(--space-2) 0; }
section.endpoint { margin: var(--space-3) 0 1.75rem; }
h3.inline { display: inline; }
code { font-family: ui-monospace, monospace; font-size: 0.875em; background: var(--card); border: 1px solid var(--line); border-radius: 3px; padding: 0 0.25em; }
.key { display: inline-block; width: 0.8em; height: 0.8em; vertical-align: -0.05em; forced-color-adjust: none; }
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
.sample { vertical-align: middle; fill: currentcolor; forced-color-adjust: none; }
.tasks > li { padding: var(--space-1) 0; }
progress { width: min(14rem, 100%); accent-color: var(--link); vertical-align: middle; }
#trends { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 36rem), 1fr)); gap: var(--space-2) 2rem; }
.trend { min-width: 0; }
.trend > h3 { margin: var(--space-1) 0; }
.trend > details { margin-top: var(--space-2); }
.plot { margin: 0 0 var(--space-2); }
.plot figcaption { display: flex; flex-wrap: wrap; gap: 0 var(--space-3); font-size: var(--size-2); color: var(--dim); }
.plot figcaption strong { color: var(--text); }
.plot output { margin-left: auto; font-variant-numeric: tabular-nums; color: var(--text); }
.chart { display: grid; grid-template-columns: 3.75rem minmax(0, 1fr); gap: var(--space-2); }
.scale { display: flex; flex-direction: column; justify-content: space-between; text-align: right; font-size: var(--size-1); line-height: 1; color: var(--dim); font-variant-numeric: tabular-nums; }
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
.time-axis text { fill: var(--dim); font-size: var(--size-1); font-variant-numeric: tabular-nums; }
tr.marked td { background: var(--card); }
.actions { display: flex; flex-wrap: wrap; gap: var(--space-2) var(--space-3); align-items: end; }
details > summary { cursor: pointer; min-height: 1.5rem; }
ol.tail { list-style: none; margin: 0; padding: 0; font-variant-numeric: tabular-nums; }
ol.tail > li { padding: 0.2rem 0; border-bottom: 1px solid var(--line); display: flex; flex-wrap: wrap; gap: 0 var(--space-3); align-items: baseline; }
ol.tail .via { min-width: 4.5rem; }
ol.tail .order { min-width: 11rem; }
ol.tail .verdict { min-width: 6.5rem; }
ol.track { list-style: none; display: flex; margin: var(--space-3) 0; padding: 0; clear: both; }
.track li { flex: 1 1 0; border-top: 4px solid var(--line); padding: var(--space-2) var(--space-3) 0 0; min-width: 0; }
.track .step { display: block; }
.track .past, .track .current { border-top-color: var(--proved); }
.track .current .step { font-weight: 700; }
.track .ahead .step { color: var(--dim); }
.track .cancelled { border-top-color: var(--alert); }
.verified { font-size: var(--size-6); margin: var(--space-3) 0; }
.times { max-width: 42rem; margin: var(--space-2) 0 var(--space-4); }
@media (max-width: 56rem) {
  .as-of { float: none; margin: var(--space-2) 0 0; }
}
@media (max-width: 44rem) {
  a.button { white-space: normal; }
  ul.tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .tiles .answer a { font-size: var(--size-6); }
  .verdict-line { font-size: var(--size-5); }
  ol.track { display: block; }
  .track li { border-top: 0; border-left: 4px solid var(--line); padding: 0.1rem 0 var(--space-2) var(--space-3); }
  .track .past, .track .current { border-left-color: var(--proved); }
  .track .cancelled { border-left-color: var(--alert); }
  h1 { margin-top: var(--space-2); font-size: var(--size-9); }
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
  table.cards tr { display: block; border: 1px solid var(--line); border-radius: 8px; margin: 0 0 var(--space-2); padding: var(--space-2) var(--space-3); }
  table.cards td { display: flex; justify-content: space-between; gap: var(--space-4); border: 0; padding: 0.1rem 0; white-space: normal; text-align: right; }
  table.cards td::before { content: attr(data-label); color: var(--dim); white-space: nowrap; text-align: left; }
  table.cards td.sentence { min-width: 0; }
  table.cards td .name { overflow-wrap: anywhere; }
}
@media (forced-colors: active) {
  :root { --proved: CanvasText; --open: GrayText; --line: GrayText; --gap: Highlight; --late: LinkText; --link: LinkText; --alert: Highlight; --text: CanvasText; --dim: CanvasText; }
}
@media print {
  .key, .verdict-line, .tiles > li { print-color-adjust: exact; }
  .trend { break-inside: avoid; }
  header.top, .skip, form, .views, .paging, button { display: none; }
  .as-of { float: none; }
}
`;
