/** A separate file: the page's policy allows no inline style. */
export const PAGE_STYLE = `
:root { color-scheme: light dark; --ink: #1d2433; --soft: #5d6880; --line: #d9dee8; --paper: #f6f7fa; --card: #fff;
  --accent: #8a4b08; --accent-soft: #fff3e0; --good: #1b7f4b; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9f0; --soft: #9aa4ba; --line: #343c4f; --paper: #14171f; --card: #1c212c; --accent: #ffb86b;
    --accent-soft: #33291a; --good: #6fd3a0; --bad: #ff8a80; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; }
header { padding: 12px 24px; background: var(--accent-soft); border-bottom: 2px solid var(--accent); display: flex;
  flex-wrap: wrap; gap: 4px 24px; align-items: baseline; }
h1 { font-size: 18px; margin: 0; }
h2 { font-size: 15px; margin: 0 0 8px; }
main { padding: 16px 24px 48px; display: grid; gap: 16px; grid-template-columns: repeat(2, minmax(0, 1fr)); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; min-width: 0; }
@media (max-width: 900px) { main { grid-template-columns: minmax(0, 1fr); } }
section.wide { grid-column: 1 / -1; }
.scroll { overflow-x: auto; }
p { margin: 0 0 8px; }
.soft, small, caption { color: var(--soft); }
.notice { grid-column: 1 / -1; background: var(--accent-soft); border: 1px solid var(--accent); border-radius: 8px; padding: 10px 16px; margin: 0; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th { text-align: left; color: var(--soft); font-weight: 600; }
th, td { padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
code { font: 12px/1.4 ui-monospace, monospace; }
dl { margin: 0; font-size: 13px; max-height: 420px; overflow-y: auto; }
dt { font-weight: 600; } dd { margin: 0 0 6px; }
form { display: inline-flex; flex-wrap: wrap; gap: 6px; align-items: center; margin: 0; }
form.block { display: flex; align-items: end; margin: 0 0 10px; }
form.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(230px, 1fr)); gap: 8px 12px; }
form.grid button { align-self: end; justify-self: start; }
label { display: grid; gap: 2px; font-size: 12px; color: var(--soft); }
input, select, button { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--line);
  border-radius: 6px; padding: 4px 8px; }
input { width: 100%; min-width: 90px; }
input.on, select.on { border-color: var(--accent); background: var(--accent-soft); }
button { background: var(--card); border-color: var(--soft); cursor: pointer; white-space: nowrap; }
button:hover { border-color: var(--accent); color: var(--accent); }
button.main { background: var(--accent); border-color: var(--accent); color: var(--card); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.tag { display: inline-block; border: 1px solid var(--line); border-radius: 99px; padding: 0 8px; font-size: 12px; }
.good { color: var(--good); } .bad { color: var(--bad); }
`;
