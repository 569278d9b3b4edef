/**
 * The script of the overview. The page is complete without it; the script keeps it up to date. Plain JavaScript in a
 * string: browsers run it unchanged, so it needs no build step.
 */
export const OVERVIEW_SCRIPT = `
"use strict";
(() => {
  const LINES_MAX = 200;
  const SILENT_SECONDS = 15;
  const word = document.getElementById("updates-word");
  const state = document.getElementById("state");
  const trends = document.getElementById("trends");
  const tail = document.getElementById("tail");
  const empty = document.getElementById("tail-empty");
  const pause = document.getElementById("pause");
  const held = document.getElementById("held");
  let stream = null;
  let heardAt = Date.now();
  let waiting = [];

  /* Replaces a part of the page and keeps the focus if the focused element still exists. */
  const replace = (element, markup) => {
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && element.contains(selection.anchorNode)) return;
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    const open = [...element.querySelectorAll("details")].map((details) => details.open);
    const same = focused ? [...element.querySelectorAll("a, summary, [tabindex]")].indexOf(focused) : -1;
    element.innerHTML = markup;
    [...element.querySelectorAll("details")].forEach((details, index) => { details.open = open[index] === true; });
    if (same >= 0) element.querySelectorAll("a, summary, [tabindex]")[same]?.focus({ preventScroll: true });
  };

  const isPaused = () => pause.getAttribute("aria-pressed") === "true";
  const show = (markup) => {
    const holder = document.createElement("template");
    holder.innerHTML = markup.trim();
    const line = holder.content.firstElementChild;
    if (!line || tail.querySelector('[data-id="' + line.dataset.id + '"]')) return;
    tail.prepend(line);
    while (tail.children.length > LINES_MAX) tail.lastElementChild.remove();
    empty.hidden = true;
  };
  const tellHeld = () => { held.textContent = waiting.length === 0 ? "" : waiting.length + " new"; };

  const listen = (name, take) => stream.addEventListener(name, (event) => { heardAt = Date.now(); take(event.data); });
  const open = () => {
    if (stream !== null) return;
    stream = new EventSource(word.dataset.updates);
    listen("tail", (markup) => {
      if (isPaused()) return;
      tail.innerHTML = markup;
      empty.hidden = tail.children.length > 0;
    });
    listen("entry", (markup) => {
      if (!isPaused()) return show(markup);
      waiting = [...waiting, markup].slice(-LINES_MAX);
      tellHeld();
    });
    listen("state", (markup) => replace(state, markup));
    listen("trends", (markup) => { replace(trends, markup); draw(); });
  };
  const close = () => { stream?.close(); stream = null; };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(!isPaused()));
    if (!isPaused()) { waiting.forEach(show); waiting = []; }
    tellHeld();
  });
  /* A hidden tab has no stream. */
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", () => { if (!document.hidden) open(); });

  setInterval(() => {
    const seconds = Math.round((Date.now() - heardAt) / 1000);
    const silent = seconds > SILENT_SECONDS;
    word.className = silent ? "alert" : "";
    word.textContent = silent
      ? "\\u2716 not live: the server was last heard " + seconds + " s ago"
      : "\\u25cf updated " + seconds + " s ago";
  }, 1000);

  /* The charts, drawn from the tables in the page. */
  const PLOTS = {
    /* Lost events are drawn in front of all late ones, so that no bar hides another. */
    lost: { columns: [[[2, 3], "late and lost", "--late"], [[3], "lost", "--gap"]], log: false },
    lag: { columns: [[[5], "seconds", "--link"]], log: true },
  };
  const drawn = [];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const draw = () => {
    drawn.splice(0).forEach((plot) => plot.destroy());
    if (typeof uPlot === "undefined") return;
    for (const figure of trends.querySelectorAll("[data-plot]")) drawn.push(drawOne(figure));
  };
  const drawOne = (figure) => {
    const { columns, log } = PLOTS[figure.dataset.plot];
    const rows = [...figure.closest(".trend").querySelectorAll("details tbody tr")];
    const hours = rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000);
    const values = columns.map(([cells]) => rows.map((row) => {
      const texts = cells.map((at) => row.cells[at].textContent.trim());
      return texts.includes("\\u2013") ? null : texts.reduce((sum, text) => sum + Number(text), 0);
    }));
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const bars = uPlot.paths.bars({ size: [0.7, 24] });
    const greatest = Math.max(1, ...values.flat().filter((value) => value !== null));
    return new uPlot({
      width: figure.clientWidth, height: 150, cursor: { y: false },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { y: log ? { distr: 3, range: [0.8, greatest * 1.3] } : { range: [0, greatest * 1.1] } },
      axes: [{ ...axis, space: 60, values: [[3600, "{HH}:{mm}", null, null, null, null, null, null, 0]] }, { ...axis, size: 44, incrs: log ? undefined : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000] }],
      series: [{ value: "{MM}-{DD} {HH}:{mm}" }, ...columns.map(([, label, name], index) => ({
        label, stroke: colour(name), fill: log ? undefined : colour(name), width: log ? 2 : 0,
        paths: log ? undefined : bars, points: { show: log, size: 5 }, spanGaps: false,
      }))],
    }, [hours, ...values], figure);
  };
  new ResizeObserver(() => drawn.forEach((plot) => {
    const width = plot.root.parentElement.clientWidth;
    if (width !== plot.width) plot.setSize({ width, height: 150 });
  })).observe(trends);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
  if (!document.hidden) open();
})();
`;
