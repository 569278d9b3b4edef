// The script of the charts, which are complete without it: it marks the period under the pointer in all of them, and
// reads out its figures from the table.
"use strict";
(() => {
  const trends = document.getElementById("trends");
  let marked = null;
  const show = () => {
    for (const trend of trends.querySelectorAll(".trend")) {
      const rows = trend.querySelectorAll("tbody tr");
      const heads = trend.querySelectorAll("thead th");
      const row = marked === null ? undefined : rows[marked];
      rows.forEach((each) => each.classList.toggle("marked", each === row));
      for (const plot of trend.querySelectorAll(".plot")) {
        const svg = plot.querySelector("svg");
        svg.querySelector(".mark")?.remove();
        const columns = plot.dataset.columns.split(" ");
        plot.querySelector("output").textContent =
          row === undefined
            ? ""
            : row.cells[0].textContent.trim() +
              ": " +
              columns
                .map((at) => heads[at].textContent.trim() + " " + row.cells[at].textContent.trim())
                .join(", ");
        if (row === undefined) continue;
        const mark = document.createElementNS(svg.namespaceURI, "rect");
        for (const [name, value] of Object.entries({ class: "mark", x: marked * 10, width: 10, height: 100 }))
          mark.setAttribute(name, value);
        svg.append(mark);
      }
    }
  };
  const mark = (number) => {
    if (number === marked) return;
    marked = number;
    show();
  };
  trends.addEventListener("pointermove", ({ target, clientX }) => {
    const svg = target.closest(".plot svg");
    if (!svg) return;
    const { left, width } = svg.getBoundingClientRect();
    const count = svg.viewBox.baseVal.width / 10;
    mark(Math.max(0, Math.min(count - 1, Math.floor(((clientX - left) / width) * count))));
  });
  trends.addEventListener("pointerleave", () => mark(null));
  trends.addEventListener("focusin", ({ target }) => {
    const row = target.closest("tbody tr");
    if (row) mark(row.rowIndex - 1);
  });
  trends.addEventListener("live", show);
})();
