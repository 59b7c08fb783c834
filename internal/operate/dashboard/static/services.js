// The table of services: those with waiting clients first.

import { attribute, byId, cell, empty, h, keyed, menu, text } from "./dom.js";
import { count, orNone, percent } from "./format.js";
import { level, takes } from "./problems.js";
import { outlive } from "./failover.js";
import { pauseService, resumeService } from "./actions.js";

const body = byId("service-rows");
const rank = { failure: 0, warning: 1, off: 2, ok: 3 };

function create() {
  const row = { service: null };
  const name = h("strong");
  const path = h("span", { class: "sub" });
  const pill = h("span", { class: "pill" });
  const sub = h("span", { class: "sub" });
  const meter = h("span", { class: "meter", "aria-hidden": "true" }, h("i"));
  const share = h("span");
  const numbers = ["Sessions", "Waiting", "Longest", "Queue limit", "Timed out", "Full", "Evicted"].map((label) => cell(label, "num"));
  row.node = h("tr", {}, h("th", { scope: "row" }, name, path), cell("State", "state", pill, sub), numbers[0], numbers[1], numbers[2],
    cell("Utilisation", "share", meter, share), ...numbers.slice(3),
    h("td", { class: "act" }, menu("Actions", () => [row.service.paused
      ? ["Resume…", () => resumeService(row.service)] : ["Pause…", () => pauseService(row.service), true]])));
  Object.assign(row, { name, path, pill, sub, meter, share, numbers, summary: row.node.querySelector("summary") });
  return row;
}

function update(row, { service, own }) {
  row.service = service;
  attribute(row.node, "data-name", service.name);
  text(row.name, service.name);
  text(row.path, `${service.host ?? ""}${service.path || "any path"} · ${service.profile}`);
  text(row.pill, service.condition.word);
  attribute(row.pill, "data-level", level(service.condition.level));
  attribute(row.pill, "title", service.condition.why ?? null);
  text(row.sub, `${count(own.filter(takes).length)} of ${count(own.length)} backends · ${[service.balance, outlive(service)].filter(Boolean).join(" · ")}`);
  const { queue } = service;
  const totals = queue.totals;
  [own.reduce((n, b) => n + b.leased, 0), queue.waiting].forEach((n, i) => text(row.numbers[i], count(n)));
  text(row.numbers[2], queue.waiting > 0 ? orNone(queue.oldest_seconds) : "–");
  text(row.numbers[3], queue.limit > 0 ? count(queue.limit) : "none");
  [totals.timed_out, totals.full, totals.evicted].forEach((n, i) => text(row.numbers[4 + i], count(n)));
  attribute(row.numbers[4], "title", `since the start; ${count(totals.left)} left before, ${count(totals.turned_away)} were turned away by a shutdown or an operator`);
  attribute(row.numbers[1], "data-level", queue.waiting > 0 ? "warn" : null);
  text(row.share, percent(service.utilisation));
  row.meter.firstChild.style.width = `${Math.min(100, 100 * service.utilisation)}%`;
  attribute(row.meter, "data-level", service.utilisation > 1 ? "bad" : service.utilisation >= 0.9 ? "warn" : null);
  attribute(row.summary, "aria-label", `Actions for service ${service.name}`);
}

export function showServices(stats) {
  const rows = stats.services.map((service) => ({ service, own: stats.backends.filter((b) => b.service === service.name) }));
  rows.sort((a, b) => rank[a.service.condition.level] - rank[b.service.condition.level] || b.service.queue.oldest_seconds - a.service.queue.oldest_seconds ||
    a.service.name.localeCompare(b.service.name));
  keyed(body, rows, (row) => row.service.name, create, update);
  empty(body, 11, rows.length === 0 ? "No service is configured." : "");
}
