// What is wrong now, and what was: the proxy finds that out, and the page shows it.

import { get } from "./api.js";
import { attribute, byId, cell, empty, h, keyed, marked, text } from "./dom.js";
import { ago, count, duration, known, moment, percent, plural } from "./format.js";

/** used returns how many connections count against a backend's cap. */
export const used = (b) => b.dialing + b.idle + b.leased + b.resetting + b.retiring;

/** takes returns whether sessions may begin on a backend: it works, and no operator keeps them away. */
export const takes = (b) => b.usable && b.state === "enabled" && b.weight > 0;

/** level returns how the page marks a condition or a problem of the proxy: bad, warn, off or ok. */
export const level = (l) => levels[l] ?? "warn";

const levels = { failure: "bad", warning: "warn", off: "off", ok: "ok" };

/** places is the parts of the page that kinds of problems are about, by the beginnings of their names. */
const places = [["service-waiting", "queue"], ["service-queue", "queue"], ["tenant", "queue"], ["service", "services"], ["backend", "backends"], ["canary", "backends"],
  ["configuration", "configuration"], ["certificate", "certificates"], ["failover-failed", "ends-title"], ["sessions-failing", "ends-title"], ["refusals", "ends-title"], ["limit", "ends-title"]];

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
    level: level(p.level), key: `${p.kind} ${p.what}`, what: p.what, since: p.since, cure: pasteable(p.cure ?? ""),
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
let read = ""; // what was wrong when the past was last asked for
let readAgain = 0; // when to ask again, even if the same is wrong; in milliseconds since 1970

more.addEventListener("click", () => { everything = !everything; showPast(); });

function createPast() {
  const level = h("span", { class: "pill" });
  const cells = [["Began", "num"], ["Lasted", "num"], ["What", ""], ["Evidence", "reason"]].map(([label, kind]) => cell(label, kind));
  return { node: h("tr", {}, cell("Problem", "", level), cells), level, cells };
}

function updatePast(row, p) {
  text(row.level, p.kind);
  attribute(row.level, "data-level", level(p.level));
  const lasted = duration(Math.max(0, (Date.parse(p.ended) - Date.parse(p.since)) / 1000));
  [moment(p.since), lasted, p.proxies?.length > 0 ? `${p.what} (${p.proxies.join(", ")})` : p.what].forEach((value, i) => text(row.cells[i], value));
  marked(row.cells[3], p.text);
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
  const now = `${stats.uptime_seconds < 60} ${stats.fleet?.whole} ${(stats.problems ?? []).map((p) => `${p.kind} ${p.what} ${p.since}`).join()}`;
  if (now === read && Date.now() < readAgain) return;
  [read, readAgain] = [now, Date.now() + 10000]; // if it fails
  list = await get("problems");
  readAgain = Date.now() + 60000;
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
  const usable = stats.backends.filter(takes).length;
  const waiting = stats.services.reduce((n, service) => n + service.queue.waiting, 0);
  return `All is well: ${plural(stats.sessions.active, "session")} on ${plural(usable, "backend")}, ${waiting > 0 ? plural(waiting, "client waits", "clients wait") : "no client waits"}`;
}
