// The table of tenants, which is there when there are some: those with waiting clients first.

import { attribute, byId, cell, h, keyed, text } from "./dom.js";
import { count } from "./format.js";

const panel = byId("tenants");
const body = byId("tenant-rows");
const note = byId("tenant-note");

function create() {
  const row = {};
  const name = h("strong");
  const sub = h("span", { class: "sub" });
  const numbers = ["Share", "Sessions", "Waiting", "Guaranteed", "Sessions so far", "Refused"].map((label) => cell(label, "num"));
  row.node = h("tr", {}, h("th", { scope: "row" }, name, sub), ...numbers);
  return Object.assign(row, { name, sub, numbers });
}

function guaranteed(services) {
  const promised = services.reduce((n, s) => n + s.guaranteed, 0);
  const kept = services.reduce((n, s) => n + s.kept, 0);
  if (promised === 0) return "–";
  return kept < promised ? `${count(kept)} of ${count(promised)}` : count(promised);
}

function update(row, tenant) {
  const services = tenant.services ?? [];
  const { totals } = tenant;
  attribute(row.node, "data-name", tenant.name);
  text(row.name, tenant.unconfigured ? `(${tenant.name})` : tenant.name);
  text(row.sub, services.map((s) => s.service).join(", "));
  text(row.numbers[0], String(tenant.share));
  text(row.numbers[1], count(tenant.sessions));
  text(row.numbers[2], count(tenant.waiting));
  attribute(row.numbers[2], "data-level", tenant.waiting > 0 ? "warn" : null);
  text(row.numbers[3], guaranteed(services));
  attribute(row.numbers[3], "title", services.filter((s) => s.guaranteed > 0).map((s) => `${s.service}: ${s.kept} of ${s.guaranteed} places`).join(", "));
  text(row.numbers[4], count(totals.sessions));
  text(row.numbers[5], count(totals.timed_out + totals.full + totals.evicted + (totals.limited ?? 0)));
  attribute(row.numbers[5], "title", `since the start: ${totals.timed_out} waited without success, ${totals.full} found the queue full, ${totals.evicted} lost their place in the full queue to another tenant, ${totals.limited ?? 0} came over the tenant's limits`);
}

export function showTenants(stats) {
  const tenants = [...(stats.tenants ?? [])];
  panel.hidden = tenants.length === 0;
  tenants.sort((a, b) => b.waiting - a.waiting || b.sessions - a.sessions || a.name.localeCompare(b.name));
  keyed(body, tenants, (tenant) => tenant.name, create, update);
  const unconfigured = tenants.filter((tenant) => tenant.unconfigured).length;
  const left = (stats.other_tenants?.count ?? 0) - unconfigured;
  text(note, [unconfigured > 0 && "In parentheses: not configured, with the share and the limits of 'default'", left > 0 && `and ${count(left)} more that are not configured`].filter(Boolean).join("; "));
}
