// The script of the charts. Their figures are in the table of the page, which it reads: without the script the table is
// open and says the same.
"use strict";
(() => {
  const charts = document.getElementById("charts");
  const figures = document.getElementById("figures");
  if (!charts || typeof uPlot === "undefined") return;
  /* Of a custom property the browser tells only the declaration; of an element, the colour of its theme. */
  const colour = (name) => {
    charts.style.color = "var(--" + name + ")";
    const { color } = getComputedStyle(charts);
    charts.style.color = "";
    return color;
  };
  const rows = () => [...figures.querySelectorAll("tbody tr")];
  const valueOf = (row, column) => row.cells[column].querySelector("data")?.value ?? "";
  const number = (text) => (text === "" ? null : Number(text));
  const times = () => rows().map((row) => Date.parse(row.querySelector("time").dateTime) / 1000);
  const title = (column) => figures.querySelectorAll("thead th")[column].textContent.trim();
  const isUtc = () => document.documentElement.dataset.zone === "utc";

  /* Later layers lie above earlier ones: each bar is drawn from 0 to its sum with those below it. */
  const LAYERS = { "On time": "proved", Late: "warn", Missed: "alert" };
  const KINDS = { proved: "proved", open: "edge", gap: "alert", breach: "warn", before: "line" };
  const LINES = [
    ["link", []],
    ["warn", [6, 3]],
  ];
  const bars = (size) => uPlot.paths.bars({ size: [size] });

  const readData = (kind, columns) => {
    if (kind === "coverage")
      return Object.keys(KINDS).map((name) => rows().map((row) => (valueOf(row, 1) === name ? 1 : null)));
    const series = columns.map((column) => rows().map((row) => number(valueOf(row, column))));
    if (kind === "lines") return series;
    return series
      .map((_, index) =>
        rows().map((_row, at) => series.slice(0, index + 1).reduce((sum, one) => sum + one[at], 0)),
      )
      .toReversed();
  };
  const describeSeries = (kind, columns) => {
    if (kind === "coverage")
      return Object.entries(KINDS).map(([name, shade]) => ({
        label: name,
        fill: colour(shade),
        paths: bars(1),
        points: { show: false },
        value: (_, value) => (value ? "yes" : ""),
      }));
    if (kind === "lines")
      return columns.map((column, index) => ({
        label: title(column),
        stroke: colour(LINES[index][0]),
        dash: LINES[index][1],
        width: 2,
        points: { size: 5 },
      }));
    return columns.toReversed().map((column) => ({
      label: title(column),
      fill: colour(LAYERS[title(column)]),
      paths: bars(0.8),
      points: { show: false },
      value: (_plot, _sum, _series, at) => (at === null ? "" : valueOf(rows()[at], column)),
    }));
  };

  const draw = (figure) => {
    const { kind } = figure.dataset;
    const columns = figure.dataset.columns.split(" ").filter(Boolean).map(Number);
    const axis = {
      stroke: colour("dim"),
      grid: { stroke: colour("line") },
      ticks: { stroke: colour("line") },
    };
    const plot = new uPlot(
      {
        width: figure.clientWidth,
        height: kind === "coverage" ? 90 : 170,
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), isUtc() ? "Etc/UTC" : undefined),
        cursor: { sync: { key: "trends" }, drag: { setScale: false } },
        scales: {
          y: {
            range: (_, _least, most) => [
              0,
              kind === "coverage"
                ? 1
                : Math.max(most * 1.1, columns.length > 1 && kind === "lines" ? 0.01 : 1),
            ],
          },
        },
        axes: [axis, { ...axis, size: 60, show: kind !== "coverage" }],
        series: [{}, ...describeSeries(kind, columns)],
      },
      [times(), ...readData(kind, columns)],
      figure,
    );
    figure.uplot = { plot, kind, columns };
  };
  charts.hidden = false;
  figures.open = false;
  const all = [...charts.querySelectorAll("figure")];
  const drawAll = () =>
    all.forEach((figure) => {
      figure.uplot?.plot.destroy();
      draw(figure);
    });
  drawAll();
  document
    .getElementById("figures-table")
    .addEventListener("live", () =>
      all.forEach(({ uplot: { plot, kind, columns } }) =>
        plot.setData([times(), ...readData(kind, columns)]),
      ),
    );
  addEventListener("resize", () =>
    all.forEach((figure) =>
      figure.uplot.plot.setSize({ width: figure.clientWidth, height: figure.uplot.plot.height }),
    ),
  );
  addEventListener("zone", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
