// Draws the measurements of a job's driver, and updates them while the page is visible.
//
// data-history="…/history.json"                of a section: the address of its data
// data-query="totals" data-chart="lag"         of a figure in it: the query and chart; without a script, a table shows it
(function () {
  "use strict";
  const EVERY_MS = 60000;
  const HEIGHT = 170;
  const SERIES = ["--series-1", "--series-2", "--series-3", "--series-4"];
  let told = null;
  const drawn = new Map();

  // A custom property is text: the browser resolves it only as the colour of an element.
  function colour(name) {
    const probe = document.createElement("span");
    probe.style.color = "var(" + name + ")";
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  function moment(seconds, from, to) {
    return new Date(seconds * 1000).toISOString().slice(from, to);
  }

  function find(figure) {
    const query = told.queries.find((each) => each.query === figure.dataset.query);
    const chart = query && query.charts.find((each) => each.name === figure.dataset.chart);
    return chart ? { at: query.at, chart: chart } : null;
  }

  function draw(figure) {
    const found = find(figure);
    const place = figure.querySelector(".plot");
    const before = drawn.get(figure);
    if (before) before.destroy();
    drawn.delete(figure);
    place.hidden = !found;
    if (!found) return;
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const options = {
      width: Math.max(200, place.clientWidth),
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { y: { range: (plot, least, most) => [0, most > 0 ? most * 1.05 : 1] } },
      axes: [
        Object.assign({ size: 28, values: (plot, ticks) => ticks.map((tick) => moment(tick, 11, 16)) }, axis),
        Object.assign({ size: 64 }, axis),
      ],
      series: [{ label: "UTC", value: (plot, at) => (at === null ? "-" : moment(at, 0, 16).replace("T", " ")) }].concat(
        found.chart.lines.map((line, number) => ({
          label: line.label,
          stroke: colour(SERIES[number % SERIES.length]),
          width: 1.5,
          dash: line.label === "trigger" ? [6, 4] : undefined,
        }))
      ),
    };
    drawn.set(figure, new uPlot(options, [found.at].concat(found.chart.lines.map((line) => line.values)), place));
  }

  function drawAll() {
    if (told) document.querySelectorAll("figure[data-chart]").forEach(draw);
  }

  async function ask(section) {
    try {
      const answer = await fetch(section.dataset.history, { credentials: "same-origin" });
      if (!answer.ok) return; // the tables show older data, and the page's notice says so
      told = await answer.json();
    } catch (error) {
      return;
    }
    drawAll();
  }

  document.addEventListener("DOMContentLoaded", function () {
    const section = document.querySelector("[data-history]");
    if (!section || !section.querySelector("figure[data-chart]") || !window.uPlot) return;
    ask(section);
    setInterval(function () {
      if (document.visibilityState === "visible") ask(section);
    }, EVERY_MS);
    new MutationObserver(drawAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    let width = section.clientWidth;
    new ResizeObserver(function () {
      if (section.clientWidth === width) return;
      width = section.clientWidth;
      drawAll();
    }).observe(section);
  });
})();
