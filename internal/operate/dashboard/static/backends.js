// The table of backends: those that need attention first.

import { attribute, byId, cell, empty, h, keyed, menu, text } from "./dom.js";
import { ago, count, duration, known, orNone, plural } from "./format.js";
import { level, used } from "./problems.js";
import { canary } from "./failover.js";
import { endAllOf, recycleBackend, setBackendState } from "./actions.js";

const body = byId("backend-rows");
const more = byId("all-backends");
const rank = { failure: 0, warning: 1, off: 2, ok: 3 };
const parts = ["leased", "resetting", "idle", "dialing", "retiring"]; // in the order of the bar
const shown = 24; // more backends are shown on demand; those with problems come first
let all = false;

more.addEventListener("click", () => { all = !all; if (last) showBackends(last); });
let last = null;

function entries(b) {
  const to = [];
  if (!b.discovered_from) { // the configuration has only the backend that stands for all servers of the name
    if (b.state !== "enabled") to.push(["Enable…", () => setBackendState(b, "enabled", last)]);
    if (b.state !== "draining") to.push(["Drain…", () => setBackendState(b, "draining", last)]);
    if (b.state !== "disabled") to.push(["Disable…", () => setBackendState(b, "disabled", last)]);
  }
  to.push(["Recycle connections…", () => recycleBackend(b)]);
  to.push(["End all sessions…", () => endAllOf(b), true]);
  return to;
}

function create() {
  const row = { backend: null };
  const name = h("strong");
  const url = h("span", { class: "sub" });
  const pill = h("span", { class: "pill" });
  const reason = h("span", { class: "sub reason" });
  const played = h("span", { class: "sub" });
  const segments = parts.map((part) => h("i", { class: part }));
  const ceiling = h("i", { class: "ceiling" });
  const bar = h("span", { class: "pool", role: "img" }, segments, ceiling);
  const numbers = h("span", { class: "sub" });
  const use = cell("Leased / cap", "num");
  const reply = cell("First reply", "num");
  const trip = cell("Ping", "num");
  const lag = cell("Lag", "num");
  const broken = cell("Broken", "num");
  const lost = h("span");
  const stalls = h("span", { class: "sub" });
  broken.append(lost, stalls);
  row.node = h("tr", {}, h("th", { scope: "row" }, name, url), cell("State", "state", pill, reason, played), cell("Connections", "connections", bar, numbers),
    use, reply, trip, lag, broken, h("td", { class: "act" }, menu("Actions", () => entries(row.backend))));
  Object.assign(row, { name, url, pill, reason, segments, ceiling, bar, numbers, use, reply, trip, lag, broken, lost, stalls, played, summary: row.node.querySelector("summary") });
  return row;
}

function update(row, b) {
  row.backend = b;
  attribute(row.node, "data-name", b.name);
  text(row.name, b.name);
  text(row.url, `${b.service} · ${b.url}`);
  const { condition } = b;
  text(row.pill, condition.word);
  attribute(row.pill, "data-level", level(condition.level));
  const probe = b.probe === "off" ? "no probe" : `probe ${b.probe}`;
  const since = condition.level !== "ok" && known(condition.since) ? `for ${ago(condition.since)}` : "";
  text(row.reason, [since, condition.why].filter(Boolean).join(": ") || `circuit ${b.circuit} · ${probe}`);
  text(row.played, canary(b));
  row.played.hidden = row.played.textContent === "";
  // Connections may exceed the cap for a while after it was lowered.
  const scale = Math.max(b.cap, used(b), 1);
  parts.forEach((part, i) => { row.segments[i].style.width = `${100 * b[part] / scale}%`; });
  row.ceiling.hidden = b.ceiling >= b.cap;
  row.ceiling.style.left = `${100 * b.ceiling / scale}%`;
  const list = parts.filter((part) => b[part] > 0).map((part) => `${count(b[part])} ${part}`).join(" · ") || "no connections";
  text(row.numbers, b.calibrated ? `${list} · calibrated for ${count(b.calibrated)}` : list);
  attribute(row.bar, "aria-label", `${list}, cap ${b.cap}${b.ceiling < b.cap ? `, ceiling ${b.ceiling}` : ""}`);
  text(row.use, `${count(b.leased)} / ${b.ceiling < b.cap ? `${count(b.ceiling)} of ` : ""}${count(b.cap)}`);
  const why = b.ceiling_reason || b.ceiling_cause && "the server said that it is full";
  const published = b.published?.total ? `, published ${b.published.used ?? "?"} of ${b.published.total}` : "";
  attribute(row.use, "title", `ceiling ${b.ceiling}${why ? ` for ${ago(b.ceiling_since)} (${why})` : ""}${published}${b.calibrated ? `, calibrated ${b.calibrated}` : ""}, warm ${b.warm}, weight ${b.weight}`);
  text(row.reply, b.first_reply_owed_seconds > 0 ? `>${duration(b.first_reply_owed_seconds)}` : orNone(b.first_reply_seconds));
  attribute(row.reply, "title", `what a typical session lately took to its first reply, of ${plural(b.first_replies ?? 0, "session")}`);
  text(row.trip, orNone(b.round_trip_seconds));
  text(row.lag, orNone(b.lag_seconds));
  attribute(row.lag, "data-level", b.overdue?.sessions > 0 ? "bad" : b.owed_seconds >= 3 ? "warn" : null);
  attribute(row.lag, "title", `the largest lag of its sessions, half of which have at most ${orNone(b.median_lag_seconds)}${b.lateness_seconds ? `; results come ${duration(b.lateness_seconds)} late for 95 %` : ""}; a result is owed for ${orNone(b.owed_seconds)}`);
  text(row.lost, count(b.broken_sessions));
  const trouble = [b.stalls && plural(b.stalls, "stall"), b.moved_sessions && `${count(b.moved_sessions)} moved`, b.not_moved_sessions && `${count(b.not_moved_sessions)} not moved`];
  text(row.stalls, trouble.filter(Boolean).join(" · "));
  attribute(row.broken, "title", `sessions that it broke since the start; circuit opened ${b.circuit_opened} times, outlier ${b.outlier_times} times`);
  attribute(row.summary, "aria-label", `Actions for backend ${b.name}`);
}

export function showBackends(stats) {
  last = stats;
  let rows = [...stats.backends];
  rows.sort((a, b) => rank[a.condition.level] - rank[b.condition.level] || a.name.localeCompare(b.name, "en", { numeric: true }));
  const total = rows.length;
  more.hidden = total <= shown;
  text(more, all ? `Show the first ${shown}` : `Show all ${total} backends`);
  if (!all) rows = rows.slice(0, shown);
  keyed(body, rows, (b) => b.name, create, update);
  empty(body, 9, total === 0 ? "No backend is configured." : "");
}
