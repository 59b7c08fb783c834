// Why sessions ended, and who waits.

import { get } from "./api.js";
import { attribute, byId, cell, empty, h, keyed, text } from "./dom.js";
import { ago, count, duration, known, moment, plural } from "./format.js";
import { openSession } from "./detail.js";
import { showEnded } from "./sessions.js";

const longest = 20; // waiting clients that are shown
const kept = 1000; // ended sessions that this page remembers
const ended = new Map(); // by id
const mostOfEvent = 50; // sessions in one event of the stream: of such an event, more may have ended
const pause = 10000; // between two requests for all of them, in milliseconds
let complete = false; // all that the proxy keeps were read
let readAt = -Infinity;
let everRead = false; // before that, the page knows only some of them
const endRows = byId("end-rows");
const queueRows = byId("queue-rows");

/** addEnded takes sessions that have ended; of the stream, if it is true. */
export function addEnded(list, ofStream = false) {
  if (ofStream && list.length >= mostOfEvent) complete = false;
  const all = [...ended.values(), ...list].sort((a, b) => Date.parse(a.ended) - Date.parse(b.ended)); // the oldest are forgotten first
  ended.clear();
  for (const session of all) ended.set(session.id, session);
  for (const id of ended.keys()) {
    if (ended.size <= kept) break;
    ended.delete(id);
  }
}

/** forgetEnded has the next readEnded read all of them again: the page was away from the proxy. */
export function forgetEnded() {
  complete = false;
  readAt = -Infinity;
}

/** readEnded reads all ended sessions that this proxy keeps, unless the page has them: the stream has only the latest ones, of its process. */
export async function readEnded() {
  if (complete || performance.now() - readAt < pause) return;
  readAt = performance.now();
  complete = true; // until the stream leaves some out meanwhile
  try {
    addEnded((await get("sessions", { state: "ended", limit: kept }, true)).sessions);
  } catch (error) {
    complete = false;
    throw error;
  } finally {
    everRead = true; // or else those of the stream have to do until the next attempt
  }
}

/** usual reports whether an end is what both sides want: it goes below the others. */
const usual = (group) => group.by !== "proxy" && (group.code === 1000 || group.code === 1001 || group.code === 1005 || !group.code);

/** alike returns a reason without its numbers, so that "no reply for 5.1s" and "5.2s" are one. Names such as gpu-2 keep theirs. */
const alike = (reason) => reason.replace(/(?<![\w.-])\d[\d.]*(?:(?:ns|[µu]s|ms|[smh])(?![a-z])[\d.]*)*(?![\w-])/gu, "…");

/** groupOf returns what sessions of one row have in common. */
const groupOf = (s) => JSON.stringify([s.by ?? "", s.code ?? 0, alike(s.reason ?? "")]);

/** ofGroup returns the sessions of a row, the latest first. */
const ofGroup = (key) => [...ended.values()].filter((s) => groupOf(s) === key).reverse();

function groups() {
  const by = new Map();
  for (const s of ended.values()) {
    const key = groupOf(s);
    let group = by.get(key);
    if (!group) by.set(key, group = { key, by: s.by || "unknown", code: s.code, reason: alike(s.reason ?? ""), number: 0, backends: new Map(), last: s.ended });
    group.number++;
    if (s.backend) group.backends.set(s.backend, (group.backends.get(s.backend) ?? 0) + 1);
    if (known(s.ended) && s.ended > group.last) group.last = s.ended;
  }
  return [...by.values()].sort((a, b) => usual(a) - usual(b) || b.number - a.number).slice(0, 12);
}

function createEnd() {
  const row = { group: null };
  const cells = [["Sessions", "num"], ["Ended by", ""], ["Code", "num"], ["Reason", "reason"], ["Backends", ""], ["Last", "num"]].map(([label, kind]) => cell(label, kind));
  const show = h("button", { type: "button", class: "link-button", on_click: () => {
    const { key, reason } = row.group;
    showEnded(reason.split("…")[0].trim(), () => ofGroup(key));
  } });
  cells[3].append(show);
  row.node = h("tr", {}, cells);
  return Object.assign(row, { cells, show });
}

function updateEnd(row, group) {
  row.group = group;
  const backends = [...group.backends].sort((a, b) => b[1] - a[1]);
  const names = backends.slice(0, 2).map(([name, n]) => backends.length > 1 ? `${name} ${count(n)}` : name);
  [count(group.number), group.by, group.code || "none"].forEach((value, i) => text(row.cells[i], value));
  text(row.show, group.reason || "no reason given");
  attribute(row.show, "data-empty", group.reason ? null : "yes");
  text(row.cells[4], names.join(", ") + (backends.length > 2 ? ` and ${plural(backends.length - 2, "other")}` : ""));
  text(row.cells[5], known(group.last) ? `${ago(group.last)} ago` : "–");
  attribute(row.node, "data-level", usual(group) ? null : "warn");
}

function list(counts) {
  return Object.entries(counts ?? {}).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]).map(([code, n]) => `${code}: ${count(n)}`).join(" · ") || "none";
}

/** began says since when the sessions ended that are counted. */
function began() {
  const first = [...ended.values()].find((s) => known(s.ended));
  return first ? ` that ended, since ${moment(first.ended)}` : "";
}

export function showEnds(stats) {
  text(byId("ends-count"), ended.size === 0 || !everRead ? "" : `the last ${plural(ended.size, "session")}${began()}`);
  keyed(endRows, everRead ? groups() : [], (group) => group.key, createEnd, updateEnd);
  empty(endRows, 6, !everRead ? "The page reads which sessions have ended." : ended.size === 0 ? "No session has ended yet." : "");
  text(byId("totals"), `Since the start ${count(stats.sessions.total)} sessions; ended by close code: ${list(stats.sessions.ended)}; refused by HTTP status: ${list(stats.sessions.refused)}`);
}

function createWaiting() {
  const row = { session: null };
  const cells = [["Place", "num"], ["Service", ""], ["Client", ""], ["Waits", "num"]].map(([label, kind]) => cell(label, kind));
  const show = h("button", { type: "button", class: "link-button", on_click: () => openSession(row.session.id) });
  cells[2].append(show);
  row.node = h("tr", {}, cells);
  return Object.assign(row, { cells, show });
}

function updateWaiting(row, session) {
  row.session = session;
  text(row.cells[0], session.place ? count(session.place) : "–");
  text(row.cells[1], session.service);
  text(row.show, session.tenant ? `${session.client} · ${session.tenant}` : session.client);
  text(row.cells[3], duration(session.waited_seconds));
}

/** showQueue shows clients that wait, those that waited longest first, and how many there are. */
export function showQueue(waiting, total = waiting.length) {
  const shown = waiting.slice(0, longest);
  text(byId("queue-count"), total === 0 ? "" : total > shown.length ? `the first ${shown.length} of ${count(total)} clients` : plural(total, "client"));
  keyed(queueRows, shown, (session) => session.id, createWaiting, updateWaiting);
  empty(queueRows, 4, total > 0 ? "" : "No client waits.");
}
