// What is wrong now, and what was: the proxy finds that out, and the page shows it.

import { get } from "./api.js";
import { attribute, byId, cell, empty, h, keyed, text } from "./dom.js";
import { ago, count, duration, known, moment, percent, plural } from "./format.js";

/** used returns how many connections count against a backend's cap. */
export const used = (b) => b.dialing + b.idle + b.leased + b.resetting + b.retiring;

/** untried reports whether the proxy has never dialed a server because it has no place there: it cannot know whether that works. */
const untried = (b) => !b.reachable && b.places?.grant === 0 && b.totals?.dialed === 0 && b.totals?.dial_failed === 0;

/** health returns a backend's level (bad, warn, off, ok), its state in a word or two, and why. */
export function health(b) {
  const since = (time) => known(time) ? ` for ${ago(time)}` : "";
  if (b.state === "disabled") return { level: "off", word: "disabled", reason: "" };
  if (b.state === "draining") return { level: "off", word: "draining", reason: b.leased > 0 ? `${plural(b.leased, "session")} left` : "no session left" };
  // The words and their order are those of Condition in internal/operate/api: what keeps sessions away comes first.
  const wrong = [];
  if (b.circuit !== "closed") wrong.push([`circuit ${b.circuit}`, b.circuit_since, b.circuit_reason]);
  if (b.probe === "down") wrong.push(["probe fails", b.probe_since, b.probe_reason]);
  if (b.canary === "down") wrong.push(["canary fails", b.canary_since, b.canary_reason]);
  if (b.stalled) wrong.push(["stalled", b.stalled_since, b.stalled_reason]);
  if (b.outlier) wrong.push(["outlier", b.outlier_since, b.outlier_reason]);
  if (!b.reachable && !untried(b)) wrong.push(["unreachable", b.since, b.reason]);
  if (wrong.length === 0 && b.overdue?.sessions >= 3) {
    return { level: "bad", word: "hung", reason: `${count(b.overdue.sessions)} of ${plural(b.leased, "session")} had no result for up to ${duration(b.overdue.longest_seconds)}` };
  }
  if (wrong.length > 0) {
    const told = new Set();
    const reason = wrong.map(([word, time, why]) => {
      const known = why && !told.has(why);
      told.add(why);
      return `${word}${since(time)}${known ? `: ${why}` : ""}`;
    }).join("; ");
    return { level: b.usable ? "warn" : "bad", word: wrong[0][0], reason };
  }
  if (untried(b)) return { level: "warn", word: "no place", reason: `not dialed yet: this proxy has no place there; ${b.places.granted} of ${b.places.cap} are granted` };
  if (!b.usable) return { level: "bad", word: "not usable", reason: b.reason || (b.weight === 0 ? "its weight is 0" : "no session may begin") };
  if (b.ceiling < b.cap) return { level: "warn", word: "says full", reason: `the server said that it is full: at most ${b.ceiling} of ${b.cap} connections for now` };
  if (b.ramp < 1) return { level: "ok", word: "starting", reason: `slow start: ${percent(b.ramp)} of its weight` };
  return { level: "ok", word: "healthy", reason: "" };
}

/** serviceState returns a service's level, its state in a word or two, and the backends that take its sessions. */
export function serviceState(service, backends) {
  const own = backends.filter((b) => b.service === service.name);
  const usable = own.filter((b) => b.usable);
  const { limit, waiting } = service.queue;
  if (service.paused) return { level: "warn", word: "paused", own, usable };
  if (own.length > 0 && usable.length === 0) return { level: "bad", word: "no backend", own, usable };
  if (own.length === 0) return { level: "bad", word: "no backend", own, usable };
  if (limit > 0 && waiting >= limit) return { level: "bad", word: "queue full", own, usable };
  if (waiting > 0) return { level: "warn", word: "clients wait", own, usable };
  return { level: "ok", word: "up", own, usable };
}

/** reported returns the problem that a proxy reports of a backend, the worst first. */
const reported = (b, problems) => (problems ?? []).find((p) => p.backend === b.name && p.service === b.service);

/** condition returns a backend's health, and what the proxy has found out about it beyond that, such as that it is slow. */
export function condition(b, problems) {
  const own = health(b);
  const problem = own.level === "ok" && reported(b, problems);
  if (!problem) return own;
  return { level: levels[problem.level] ?? "warn", word: problem.kind.replace(/^backend-/, ""), reason: problem.text };
}

const levels = { failure: "bad", warning: "warn" };

/** places is the parts of the page that kinds of problems are about, by the beginnings of their names. */
const places = [["service-waiting", "queue"], ["service-queue", "queue"], ["tenant", "queue"], ["service", "services"], ["backend", "backends"], ["canary", "backends"],
  ["configuration", "configuration"], ["failover-failed", "ends-title"], ["sessions-failing", "ends-title"], ["refusals", "ends-title"], ["limit", "ends-title"]];

let admin = ""; // the --admin that commands on the proxy's machine need; empty for none

/** setCommands takes where commands on the proxy's machine find it, as the proxy says. */
export const setCommands = (access) => { admin = access?.commands ?? ""; };

/** pasteable returns the commands of a cure so that they reach the proxy from a shell on its machine. */
function pasteable(cure) {
  if (admin === "") return cure;
  const word = /^[\w./:@%+=,[\]-]+$/.test(admin) ? admin : `'${admin.replaceAll("'", "'\\''")}'`;
  // Another --admin is a setting that 'wsbouncer check' takes.
  return cure.split("; ").map((command) => /^wsbouncer (?!check\b)/.test(command) ? `${command} --admin ${word}` : command).join("; ");
}

/** problems returns what is wrong, in the proxy's order, as the page shows it: level, key, kind, whom it hurts, what, text, since, cure, and the id of its part of the page. */
export function problems(stats) {
  const all = (stats.problems ?? []).map((p) => ({
    level: levels[p.level] ?? "warn", key: `${p.kind} ${p.what}`, what: p.what, since: p.since, cure: pasteable(p.cure ?? ""),
    kind: p.kind, hurts: p.hurts, text: p.proxies?.length > 0 ? `${p.text} (seen by ${p.proxies.join(", ")})` : p.text,
    where: p.kind.startsWith("fleet") ? (stats.fleet?.proxies?.length > 1 ? "fleet" : "backends") : places.find(([kind]) => p.kind.startsWith(kind))?.[1] ?? "sessions",
  }));
  for (const l of stats.leaving ?? []) { // no problem, but good to know
    all.push({ level: "info", key: `leaving ${l.service} ${l.name}`, what: `backend ${l.name}`, cure: "", where: "backends",
      text: `removed, and still has ${plural(l.leased + l.resetting + l.retiring, "connection")} (${plural(l.leased, "session")})` });
  }
  return all;
}

const past = byId("past-rows");
const more = byId("all-past");
const shown = 8; // more are shown on demand
let everything = false;
let list = { past: [] };
let read = ""; // what was wrong when the past was read
let readAt = 0;

more.addEventListener("click", () => { everything = !everything; showPast(); });

function createPast() {
  const level = h("span", { class: "pill" });
  const cells = [["Began", "num"], ["Lasted", "num"], ["What", ""], ["Evidence", "reason"]].map(([label, kind]) => cell(label, kind));
  return { node: h("tr", {}, cell("Problem", "", level), cells), level, cells };
}

function updatePast(row, p) {
  text(row.level, p.kind);
  attribute(row.level, "data-level", levels[p.level] ?? "warn");
  const lasted = duration(Math.max(0, (Date.parse(p.ended) - Date.parse(p.since)) / 1000));
  [moment(p.since), lasted, p.proxies?.length > 0 ? `${p.what} (${p.proxies.join(", ")})` : p.what, p.text].forEach((value, i) => text(row.cells[i], value));
  attribute(row.node, "title", pasteable(p.cure ?? "") || null);
}

function showPast() {
  more.hidden = list.past.length <= shown;
  text(more, everything ? `Show the last ${shown}` : `Show all ${list.past.length}`);
  keyed(past, everything ? list.past : list.past.slice(0, shown), (p) => `${p.kind} ${p.what} ${p.since} ${p.proxies ?? ""}`, createPast, updatePast);
  empty(past, 5, list.past.length === 0 ? "Nothing was wrong as far as is known." : "");
  text(byId("past-note"), list.unsaved ? `It cannot be written to disk: ${list.unsaved}` : "");
}

/** refreshPast reads what was wrong, if that may have changed. */
export async function refreshPast(stats) {
  const now = `${stats.uptime_seconds < 60} ${(stats.problems ?? []).map((p) => `${p.kind} ${p.what} ${p.since}`).join()}`;
  if (now === read && Date.now() - readAt < 60000) return;
  list = await get("problems");
  [read, readAt] = [now, Date.now()];
  showPast();
}

/** summary returns the one line that says how things are. */
export function summary(stats, found) {
  const wrong = found.filter((p) => p.level !== "info");
  const hurting = (whom) => wrong.filter((p) => p.hurts === whom).length;
  const now = hurting("clients");
  const soon = hurting("clients-soon");
  const others = (n) => n > 0 ? `, ${plural(n, "other")}` : "";
  if (now > 0) return `${plural(now, "problem hurts", "problems hurt")} clients${others(wrong.length - now)}`;
  if (soon > 0) return `Clients are served: ${plural(soon, "problem")} may hurt them soon${others(wrong.length - soon)}`;
  if (wrong.length > 0) return `Clients are served: ${plural(wrong.length, "problem")} that no client notices`;
  const usable = stats.backends.filter((b) => b.usable).length;
  const waiting = stats.services.reduce((n, service) => n + service.queue.waiting, 0);
  return `All is well: ${plural(stats.sessions.active, "session")} on ${plural(usable, "backend")}, ${waiting > 0 ? plural(waiting, "client waits", "clients wait") : "no client waits"}`;
}
