// What is wrong now, in words. It has no state: statistics and history go in, problems come out, the worst first.

import { ago, bytes, count, duration, known, moment, percent, plural } from "./format.js";

const rank = { bad: 0, warn: 1, info: 2 };

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

/** drain says how far a proxy has come that shuts down. */
function drain(stats) {
  const left = plural(stats.sessions.active, "session");
  const { accepting, closes, spread, deadline } = stats.drain ?? {};
  if (accepting) return `it is not ready, and accepts clients until ${moment(closes)}; ${left} now`;
  const limit = known(deadline) ? `, closed from ${moment(spread)} to ${moment(deadline)}` : "";
  return `it takes no new sessions; ${left} left${limit}`;
}

/** fleetProblems adds what is wrong with the proxies that share the servers, in the words of internal/operate/diagnosis. */
function fleetProblems(fleet, add) {
  if (!fleet) return;
  const where = fleet.mode === "fleet" && fleet.proxies.length > 1 ? "fleet" : "backends"; // one proxy has no table of proxies
  const why = `${fleet.problem ?? ""}${fleet.advice ? `; ${fleet.advice}` : ""}`;
  if (fleet.mode === "whole") add("bad", "fleet", where, `Caps are not shared, so servers may see more connections than their caps: ${why}.`);
  else if (fleet.mode === "waiting") add("bad", "fleet", where, `The ledger has not answered yet, so this proxy has no places: ${why}.`);
  else if (fleet.problem) add("bad", "fleet", where, `The ledger has not been reached for ${duration(fleet.problem_seconds)}, so no proxy gets more places: ${why}.`);
  if (fleet.frozen) add(fleet.frozen_seconds > 30 ? "bad" : "warn", "frozen", where, `Grants are frozen for ${duration(fleet.frozen_seconds)}: ${fleet.frozen_why}.`);
  const told = new Set((fleet.missing ?? []).map((m) => m.id));
  const seen = new Set(fleet.proxies.filter((p) => p.seen_seconds <= 3).map((p) => p.id)); // it serves, or has just ended
  for (const m of fleet.missing ?? []) add(seen.has(m.id) ? "warn" : "bad", `proxy ${m.id}`, "fleet", `Proxy ${m.name}: ${m.why}.`);
  for (const p of fleet.proxies) if (p.problem && !told.has(p.id)) add("warn", `proxy ${p.id}`, "fleet", `Proxy ${p.name}: ${p.problem}.`);
}

/** problems returns everything that is wrong: level, a key that stays while its numbers change, a text, and the id of its part of the page. */
export function problems(stats, points, intervalSeconds) {
  const all = [];
  const add = (level, key, where, text) => all.push({ level, key, where, text });
  if (stats.draining) add("warn", "draining", "sessions", `The proxy is shutting down: ${drain(stats)}.`);
  fleetProblems(stats.fleet, add);
  for (const service of stats.services) {
    const { own, usable } = serviceState(service, stats.backends);
    const { waiting, limit, oldest_seconds: oldest } = service.queue;
    const wait = waiting > 0 ? `${plural(waiting, "client waits", "clients wait")}, the first for ${duration(oldest)}` : "";
    if (service.paused) {
      add("warn", `paused ${service.name}`, "services", `Service ${service.name} is paused${wait ? `: ${wait}` : "."}`);
    } else if (usable.length === 0) {
      add("bad", `empty ${service.name}`, "services", `Service ${service.name} has no backend that takes sessions${own.length === 0 ? ": none is configured" : ` (of ${own.length})`}${wait ? `; ${wait}` : ""}.`);
    } else if (limit > 0 && waiting >= limit) {
      add("bad", `full ${service.name}`, "queue", `The queue of service ${service.name} is full (${count(limit)}): new clients are refused; the first waits for ${duration(oldest)}.`);
    } else if (oldest >= 1) {
      add("warn", `waiting ${service.name}`, "queue", `Service ${service.name}: ${wait}.`);
    } else if (service.utilisation >= 0.9) {
      add("warn", `busy ${service.name}`, "services", `Service ${service.name} uses ${percent(service.utilisation)} of its connections${wait ? `: ${wait}` : ""}.`);
    }
  }
  for (const d of stats.discovery ?? []) {
    if (!known(d.failing)) continue;
    const stay = d.servers > 0 ? `; the ${plural(d.servers, "known server")} ${d.servers === 1 ? "stays" : "stay"}` : ", and it has no servers";
    add(d.servers > 0 ? "warn" : "bad", `lookup ${d.backend}`, "backends", `DNS lookups for backend ${d.backend} fail for ${ago(d.failing)}${stay}: ${d.reason}`);
  }
  for (const b of stats.backends) {
    const { level, word, reason } = health(b);
    if (word === "hung") add("bad", `backend ${b.name}`, "backends", `Backend ${b.name} hangs: ${reason}.`);
    else if (level === "bad") add("bad", `backend ${b.name}`, "backends", `Backend ${b.name} takes no sessions: ${reason || word}.`);
    else if (level === "warn") add("warn", `backend ${b.name}`, "backends", `Backend ${b.name}: ${reason || word}.`);
  }
  const c = stats.configuration;
  if (c.state !== "current") {
    const what = c.state === "copied" ? "comes from the copy on disk" : `is ${c.state}`;
    add("warn", "configuration", "configuration", `The configuration ${what}${known(c.since) ? ` for ${ago(c.since)}` : ""}${c.reason ? `: ${c.reason}` : ""}.`);
  }
  const minute = points.slice(-Math.max(1, Math.round(60 / (intervalSeconds || 10))));
  const sum = (field) => minute.reduce((n, point) => n + point[field], 0);
  const [failed, refused] = [sum("failed"), sum("refused")];
  if (failed > 0) add("warn", "failed", "ends", `${plural(failed, "session")} failed in the last minute.`);
  if (refused > 0) add("warn", "refused", "ends", `${plural(refused, "client was", "clients were")} refused in the last minute.`);
  for (const short of stats.shortages ?? []) add("bad", `short ${short}`, "sessions", `${short[0].toUpperCase()}${short.slice(1)}.`);
  if (stats.internal_errors > 0) add("warn", "internal", "sessions", `${plural(stats.internal_errors, "internal error")} since the start: the log has the stack of each. Please report it.`);
  const busy = stats.loops.loops.filter((loop) => loop.awake);
  if (busy.length > 0 && busy.every((loop) => loop.busy > 0.9)) add("warn", "loops", "sessions", `The event loops use ${percent(busy.reduce((n, l) => n + l.busy, 0) / busy.length)} of their processors.`);
  // The words are those of internal/operate/diagnosis.
  const { memory_bytes: kept = 0, limit_bytes: most = 0 } = stats.replay ?? {};
  if (most > 0 && kept >= 0.9 * most) add("bad", "replay", "sessions", `The replay memory is nearly used up: ${bytes(kept)} of ${bytes(most)}; when it is, sessions end with their backends.`);
  for (const { name, failover: f } of stats.services) {
    if (!f || f.mode === "off") continue;
    if (f.verdict === "never") add("warn", `failover ${name}`, "services", `Service ${name}: failover: replay has no effect: ${f.why || "its profile does not say how"}.`);
    if (known(f.failed)) add("bad", `moves ${name}`, "ends", `Service ${name}: ${ago(f.failed)} ago no other backend could continue a session whose backend failed: see how it ended.`);
  }
  for (const l of stats.leaving ?? []) {
    add("info", `leaving ${l.name}`, "backends", `Backend ${l.name} was removed and still has ${plural(l.leased + l.resetting + l.retiring, "connection")} (${plural(l.leased, "session")}).`);
  }
  return all.sort((a, b) => rank[a.level] - rank[b.level]);
}

/** summary returns the one line that says how things are. */
export function summary(stats, found) {
  const wrong = found.filter((p) => p.level !== "info").length;
  if (wrong > 0) return plural(wrong, "problem");
  const usable = stats.backends.filter((b) => b.usable).length;
  const waiting = stats.services.reduce((n, service) => n + service.queue.waiting, 0);
  return `All is well: ${plural(stats.sessions.active, "session")} on ${plural(usable, "backend")}, ${waiting > 0 ? plural(waiting, "client waits", "clients wait") : "no client waits"}`;
}
