// The charts of the last hour, drawn by uPlot (vendor/uplot). The pointer shows the same moment in all of them.

import { byId, h, text } from "./dom.js";
import { count, duration, rate } from "./format.js";

const perSecond = (n) => `${rate(n)}/s`;
const series = (field, color, label) => ({ of: (point) => point[field], color, label });
/** counted is a series of what a point counts over its interval, per second. */
const counted = (field, color) => ({ of: (point) => point[field] / interval, color, label: field });
const definitions = [
  { title: "Sessions", show: count, least: 4, lines: [series("sessions", "--leased", "active")] },
  { title: "Waiting clients", show: count, least: 4, lines: [series("waiting", "--resetting", "waiting")] },
  { title: "Sessions begun", show: perSecond, lines: [series("sessions_per_second", "--leased", "begun")] },
  { title: "Frames, both ways", show: perSecond, lines: [series("frames_per_second", "--leased", "frames")] },
  { title: "First reply, median", show: (n) => n > 0 ? duration(n) : "–", lines: [series("first_reply_seconds", "--dialing", "first reply")], gaps: true },
  { title: "Failed and refused", show: perSecond, least: 0.4, lines: [counted("failed", "--bad"), counted("refused", "--resetting")] },
];
const hour = 3600;
const shortest = 300; // seconds: the span of a chart just after the start
const height = 102;

const holder = byId("charts");
const span = byId("charts-span");
const probe = h("span", { class: "unseen", "aria-hidden": "true" });
document.body.append(probe);
/** color returns what a colour of style.css is in the present theme: a canvas cannot look it up. */
function color(name) {
  probe.className = `unseen color${name}`;
  return getComputedStyle(probe).color;
}

let charts = [];
let points = [];
let interval = 10;
let pointed = null; // the index under the pointer, or null

function figure(definition) {
  const value = h("span", { class: "value" });
  const canvas = h("div", { class: "plot", role: "img" });
  const node = h("figure", {}, h("figcaption", {}, h("span", { class: "muted" }, definition.title), value), canvas);
  return { definition, node, value, canvas, plot: null };
}

const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const exact = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

function build(chart) {
  const { definition } = chart;
  const muted = color("--muted");
  const grid = { stroke: color("--line"), width: 1, dash: [] };
  const font = "11px system-ui, sans-serif";
  chart.plot?.destroy();
  chart.plot = new uPlot({
    width: Math.max(80, chart.canvas.clientWidth), height,
    padding: [6, 18, 0, 0], // at the right, for half of a time below the last moment
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "wsbouncer", setSeries: false }, points: { size: 6 } },
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(definition.least ?? 0, high * 1.15) || 1] } },
    axes: [
      { stroke: muted, font, size: 26, gap: 8, space: 56, incrs: [60, 120, 300, 600, 900, 1200, 1800], grid: { show: false }, ticks: { show: false }, values: (_, all) => all.map((s) => time.format(new Date(s * 1000))) },
      { stroke: muted, font, size: 52, gap: 4, space: 26, grid, ticks: { show: false }, values: (_, all) => all.map((n) => n === 0 ? "0" : isCoarse(definition, n) ? definition.show(n).replace("/s", "") : "") },
    ],
    series: [{}, ...definition.lines.map((line) => ({ label: line.label, stroke: color(line.color), width: 1.5, fill: definition.lines.length > 1 ? undefined : fade(color(line.color)), points: { show: false }, spanGaps: Boolean(definition.gaps) }))],
    hooks: { setCursor: [(plot) => { pointed = plot.cursor.idx ?? null; values(); }] },
  }, data(definition), chart.canvas);
}

/** isCoarse reports whether a number has no more digits than its chart shows: two lines of the grid must not have one label. */
function isCoarse({ show }, n) {
  const unit = show === count ? 1 : show === perSecond ? 0.1 : 0;
  return unit === 0 || Math.abs(n / unit - Math.round(n / unit)) < 1e-6;
}

const fade = (rgb) => rgb.replace(/^rgb\((.*)\)$/, "rgba($1, 0.12)");

/** data returns the columns of a chart. Where the proxy was away, or nothing was measured, there is a gap. */
function data(definition) {
  const x = [];
  const columns = definition.lines.map(() => []);
  let before = null;
  for (const point of points) {
    const at = Date.parse(point.time) / 1000;
    if (before !== null && at - before > 3 * interval) {
      x.push(before + interval);
      for (const column of columns) column.push(null);
    }
    before = at;
    x.push(at);
    definition.lines.forEach((line, i) => columns[i].push(definition.gaps && line.of(point) === 0 ? null : line.of(point)));
  }
  return [x, ...columns];
}

function values() {
  for (const { definition, value, plot } of charts) {
    if (!plot || plot.data[0].length === 0) {
      text(value, "–");
      continue;
    }
    const index = pointed === null || pointed >= plot.data[0].length ? plot.data[0].length - 1 : pointed;
    const shown = definition.lines.map((line, i) => {
      const n = plot.data[i + 1][index];
      return `${n === null ? "–" : definition.show(n)}${definition.lines.length > 1 ? ` ${line.label}` : ""}`;
    }).join(" · ");
    text(value, pointed === null ? shown : `${exact.format(new Date(plot.data[0][index] * 1000))}  ${shown}`);
  }
}

/** mergeHistory takes a part of the history: the whole after a connection, then single points. Points of before a restart stay. */
export function mergeHistory(history) {
  if (history.interval_seconds > 0) interval = history.interval_seconds;
  const fresh = history.points ?? [];
  if (fresh.length === 0) return;
  const first = Date.parse(fresh[0].time);
  const last = Date.parse(fresh.at(-1).time);
  points = points.filter((point) => Date.parse(point.time) < first).concat(fresh).filter((point) => Date.parse(point.time) > last - hour * 1000);
}

export const history = () => ({ points, interval });

export function showCharts() {
  if (points.length === 0) {
    text(span, "no history yet");
    return;
  }
  if (charts.length === 0) {
    charts = definitions.map(figure);
    holder.replaceChildren(...charts.map((chart) => chart.node));
    charts.forEach(build);
    new ResizeObserver(() => {
      for (const chart of charts) {
        const width = Math.max(80, chart.canvas.clientWidth);
        if (chart.plot.width !== width) chart.plot.setSize({ width, height });
      }
    }).observe(holder);
  }
  const last = Date.parse(points.at(-1).time) / 1000;
  const first = Math.min(Date.parse(points[0].time) / 1000, last - shortest);
  text(span, last - first >= hour - 60 ? "last hour" : `last ${Math.round((last - first) / 60)} min`);
  for (const { definition, canvas, plot } of charts) {
    plot.batch(() => {
      plot.setData(data(definition), false);
      plot.setScale("x", { min: Math.max(first, last - hour), max: last });
    });
    const said = definition.lines.map((line) => {
      const all = points.map(line.of);
      return `${line.label}: now ${definition.show(all.at(-1))}, at most ${definition.show(Math.max(...all))}`;
    });
    canvas.setAttribute("aria-label", `${definition.title}, ${span.textContent}; ${said.join("; ")}`);
  }
  values();
}

/** recolor draws the charts again, in the colours of another theme. */
export function recolor() {
  charts.forEach(build);
  showCharts();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolor);
