/**
 * The charts of the overview, drawn from the tables in the page. Plain JavaScript in a string: browsers run it
 * unchanged, so it needs no build step.
 */
export const CHART_SCRIPT = `
"use strict";
(() => {
  const trends = document.getElementById("trends");
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
  trends.addEventListener("live", draw);
  draw();
})();
`;
