// The table of certificates, which is there when there are some: those that expire first at the top.

import { attribute, byId, cell, h, keyed, text } from "./dom.js";
import { count, duration, known, moment } from "./format.js";

const panel = byId("certificates");
const body = byId("certificate-rows");
const levels = { valid: "ok", expiring: "warn" };

function create() {
  const row = { name: h("strong"), sub: h("span", { class: "sub" }), pill: h("span", { class: "pill" }), names: cell("Names"), expires: cell("Expires", "num"), left: cell("Left", "num") };
  row.node = h("tr", {}, h("th", { scope: "row" }, row.name, row.sub), cell("State", "", row.pill), row.names, row.expires, row.left);
  return row;
}

function update(row, c) {
  text(row.name, c.file);
  text(row.sub, [c.listener, c.failure].filter(Boolean).join(" · "));
  text(row.pill, c.state);
  attribute(row.pill, "data-level", levels[c.state] ?? "bad");
  text(row.names, (c.names ?? []).join(", "));
  text(row.expires, moment(c.not_after));
  text(row.left, levels[c.state] ? duration((Date.parse(c.not_after) - Date.now()) / 1000) : "–");
}

export function showCertificates(stats) {
  const certificates = [...(stats.tls?.certificates ?? [])];
  panel.hidden = certificates.length === 0;
  const end = (c) => known(c.not_after) ? Date.parse(c.not_after) : 0;
  certificates.sort((a, b) => end(a) - end(b) || a.file.localeCompare(b.file));
  keyed(body, certificates, (c) => `${c.file} ${c.listener ?? ""}`, create, update);
  const results = {};
  for (const { result, count: n } of stats.tls?.handshakes ?? []) results[result] = (results[result] ?? 0) + n;
  const failed = Object.entries(results).filter(([result, n]) => n > 0 && result !== "full" && result !== "resumed");
  text(byId("handshakes"), `TLS handshakes since the start: ${count((results.full ?? 0) + (results.resumed ?? 0))} succeeded, ` +
    `${count(failed.reduce((sum, [, n]) => sum + n, 0))} failed${failed.length > 0 ? ` (${failed.map(([result, n]) => `${result} ${count(n)}`).join(", ")})` : ""}`);
  byId("certificates-failure").hidden = !stats.tls?.failure;
  text(byId("certificates-failure"), stats.tls?.failure);
}
