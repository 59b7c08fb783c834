// The table of sessions: filters, order, keyboard.

import { get } from "./api.js";
import { attribute, byId, cell, empty, h, keyed, text } from "./dom.js";
import { bytes, count, duration, moment, firstReply, orNone, plural, rate } from "./format.js";
import { openSession, shownSession } from "./detail.js";
import { assurance } from "./failover.js";

const states = ["waiting", "relaying", "moving", "parked", "answering", "completing", "closing", "lingering", "ended"];
const limit = 100;

// The columns; those with an order can be sorted by, and the proxy sorts: this page has only the first of them.
const columns = [
  { label: "Session", show: (s) => s.id },
  { label: "State", order: "state" },
  { label: "Service", order: "service", show: (s) => s.service, wide: true },
  { label: "Backend", order: "backend", show: (s) => s.backend || "–" },
  { label: "Client", order: "client", show: (s) => s.tenant ? `${s.client} · ${s.tenant}` : s.client },
  { label: "Age", order: "age", num: true, show: (s) => duration(s.age_seconds) },
  { label: "Msg/s", order: "rate", num: true, live: true, one: true, show: (s) => rate(s.frames_per_second) },
  { label: "Lag", order: "lag", num: true, live: true, show: (s) => orNone(s.lag_seconds) },
  { label: "In", order: "bytes", num: true, wide: true, show: (s) => `${count(s.frames_from_client)} · ${bytes(s.bytes_from_client)}` },
  { label: "Out", order: "frames", num: true, wide: true, show: (s) => `${count(s.frames_from_backend)} · ${bytes(s.bytes_from_backend)}` },
  { label: "First reply", num: true, wide: true, show: firstReply },
  { label: "Waited", order: "waited", num: true, wide: true, show: (s) => orNone(s.waited_seconds) },
  { label: "Failover", failover: true, show: assurance },
  { label: "Ended", num: true, ended: true, show: (s) => moment(s.ended) },
  { label: "By", ended: true, show: (s) => s.by || "–" },
  { label: "Code", num: true, ended: true, show: (s) => s.code || "–" },
  { label: "Reason", ended: true, show: (s) => s.reason || "–" },
  { label: "Proxy", fleet: true, show: (s) => s.proxy || "–" },
];
const orders = { lag: "lag", rate: "messages per second", age: "age", started: "started first", waited: "time waited", bytes: "bytes", frames: "frames", client: "client", backend: "backend", service: "service", state: "state" };

const body = byId("session-rows");
const inputs = { text: byId("filter"), service: byId("filter-service"), backend: byId("filter-backend"), state: byId("filter-state"), order: byId("order") };
let list = null; // the last SessionList
let requery = () => {};
let touched = 0; // when the pointer last moved in the table
let ticket = 0; // of the last request for ended sessions
let before = null; // the order in use before one of those that are missing
let findEnded = null; // returns the ended sessions of a row of "Ends by reason" while they are shown; null for those that the filters choose

const wantsEnded = () => inputs.state.value === "ended";
/** address: what looks like one goes to the proxy, which knows all sessions; other texts filter what is shown. */
const isAddress = (value) => /^(\d{1,3}(\.\d{1,3}){3}(:\d+)?|\[?[0-9a-f]*:[0-9a-f:.]*\]?(:\d+)?)$/i.test(value) && value.length > 6;
const typed = () => inputs.text.value.trim();

/** query returns what to ask the stream of events for. */
export function query() {
  const q = { interval: 2, limit, sort: inputs.order.value || "lag", service: inputs.service.value, backend: inputs.backend.value };
  if (!wantsEnded()) q.state = inputs.state.value;
  if (isAddress(typed())) q.client = typed();
  return q;
}

/** options sets what can be chosen, and returns false if what was chosen no longer can: then it is the first. */
function options(select, first, values) {
  const wanted = [first, ...values];
  if (select.options.length === wanted.length && [...select.options].every((option, i) => option.value === (i ? wanted[i] : ""))) return true;
  const chosen = select.value;
  select.replaceChildren(...wanted.map((value, i) => h("option", { value: i ? value : "" }, value)));
  const kept = chosen === "" || values.includes(chosen);
  select.value = kept ? chosen : "";
  return kept;
}

const kindOf = (column) => [column.num && "num", column.wide && "wide", column.live && "only-live", column.one && "only-one", column.ended && "only-ended", column.failover && "only-failover", column.fleet && "only-fleet"]
  .filter(Boolean).join(" ");

function create() {
  const row = { session: null };
  const pill = h("span", { class: "pill" });
  const cells = columns.map((column) => cell(column.label, kindOf(column)));
  cells[1].append(pill);
  row.node = h("tr", { tabindex: -1, on_click: () => openSession(row.session.id), on_keydown: (event) => keys(event, row) }, cells);
  return Object.assign(row, { cells, pill });
}

function update(row, session) {
  row.session = session;
  attribute(row.node, "data-id", session.id);
  attribute(row.node, "aria-label", `Session ${session.id}, ${session.state}`);
  attribute(row.node, "data-shown", session.id === shownSession() ? "yes" : null);
  columns.forEach((column, i) => { if (column.show) text(row.cells[i], column.show(session)); });
  const place = session.state === "waiting" && session.place ? ` (${session.place}.)` : "";
  text(row.pill, session.state + place + (session.taps ? " · tapped" : ""));
  attribute(row.pill, "data-level", { relaying: "ok", ended: "off", lingering: "off", waiting: "warn", moving: "warn", parked: "warn" }[session.state] ?? "info");
}

/** keys moves in the table: one row at a time has a place in the order of the Tab key. */
function keys(event, row) {
  const rows = [...body.children];
  const at = rows.indexOf(row.node);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1, PageDown: Math.min(at + 10, rows.length - 1), PageUp: Math.max(at - 10, 0) }[event.key];
  if (to !== undefined) {
    event.preventDefault();
    if (rows[to]) focus(rows[to]);
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    openSession(row.session.id);
  }
}

function focus(node) {
  for (const other of body.querySelectorAll("tr[tabindex='0']")) other.tabIndex = -1;
  node.tabIndex = 0;
  node.focus();
}

function matches(session, wanted) {
  return [session.id, session.client, session.peer, session.tenant, session.backend, session.service, session.state, session.request_id, session.trace_id, session.by, session.code, session.reason]
    .some((value) => value !== undefined && String(value).toLowerCase().includes(wanted));
}

export function showSessions(fresh, stats) {
  if (fresh) list = fresh;
  if (stats) {
    attribute(body.parentNode, "data-failover", stats.replay ? "yes" : null);
    attribute(body.parentNode, "data-fleet", stats.fleet?.whole ? "yes" : null);
    offerOrders(Boolean(stats.fleet?.whole));
    const kept = options(inputs.service, "all", stats.services.map((service) => service.name));
    if (!options(inputs.backend, "all", stats.backends.filter((b) => !inputs.service.value || b.service === inputs.service.value).map((b) => b.name)) || !kept) changed();
  }
  if (!list) return;
  const ended = wantsEnded();
  attribute(body.parentNode, "data-view", ended ? "ended" : "live");
  const wanted = typed().toLowerCase();
  const local = wanted !== "" && (ended || !isAddress(typed()));
  const shown = local ? list.sessions.filter((s) => matches(s, wanted)) : list.sessions;
  const focused = body.contains(document.activeElement) ? [...body.children].indexOf(document.activeElement.closest("tr")) : -1;
  keyed(body, shown, (s) => s.id, create, update, Date.now() - touched < 3000 && body.matches(":hover"));
  if (focused >= 0 && !body.contains(document.activeElement) && body.children.length > 0) focus(body.children[Math.min(focused, body.children.length - 1)]);
  if (body.firstChild && !body.querySelector("tr[tabindex='0']")) body.firstChild.tabIndex = 0;
  const of = list.matched > shown.length ? ` of ${count(list.matched)}` : "";
  text(byId("sessions-count"), `${count(shown.length)}${of} ${ended ? "ended" : "live"}${!ended && list.total > list.matched ? ` · ${count(list.total)} in all` : ""}`);
  text(byId("sessions-note"), ended && findEnded ? "The sessions of a row of \"Ends by reason\", at this proxy. Change a filter to list others." : local && list.matched > list.sessions.length
    ? `The text filters the ${plural(list.sessions.length, "session")} that this page has. Choose a service, backend or state, type a client's address, or press Enter after a whole id to look among all ${count(list.matched)}.` : "");
  empty(body, columns.length, shown.length > 0 ? "" : list.matched > 0 || list.total > 0 && !ended ? "No session matches." : ended ? "No session has ended yet." : "No session.");
}

/** refreshEnded asks for ended sessions, which are not in the stream of events. */
export async function refreshEnded() {
  if (!wantsEnded()) return;
  const mine = ++ticket;
  if (findEnded) {
    const sessions = findEnded();
    return showSessions({ sessions, matched: sessions.length, total: sessions.length }, null);
  }
  const answer = await get("sessions", { state: "ended", limit: 500, service: inputs.service.value, backend: inputs.backend.value });
  if (mine !== ticket || !wantsEnded()) return;
  showSessions(answer, null);
}

/** refreshFleet asks for the live sessions of all proxies, which are not in the stream of events of one. It measures no rates. */
export async function refreshFleet() {
  if (wantsEnded()) return;
  const { interval, ...wanted } = query();
  if (wanted.sort === "rate") wanted.sort = "age"; // offerOrders has not been called yet
  const mine = ++ticket;
  const answer = await get("sessions", wanted);
  if (mine === ticket && !wantsEnded()) showSessions(answer, null);
}

/** liveSessions takes the list of the stream, which does not have ended sessions. */
export function liveSessions(fresh) {
  if (!wantsEnded()) showSessions(fresh, null);
}

/** showEnded shows ended sessions, which find returns whenever they are shown anew, and in the filter what their reasons have in common. */
export function showEnded(reason, find) {
  inputs.service.value = inputs.backend.value = "";
  inputs.state.value = "ended";
  inputs.text.value = reason;
  findEnded = find;
  changed();
  byId("sessions").scrollIntoView({ block: "start" });
  byId("sessions").focus({ preventScroll: true });
}

/** showBackendSessions shows the live sessions of a backend. */
export function showBackendSessions(backend) {
  findEnded = null;
  inputs.state.value = "";
  inputs.text.value = "";
  inputs.service.value = "";
  options(inputs.backend, "all", [...new Set([...[...inputs.backend.options].slice(1).map((o) => o.value), backend])]);
  inputs.backend.value = backend;
  changed();
  byId("sessions").scrollIntoView({ block: "start" });
}

/** offerOrders leaves out those by what only the stream of one proxy measures while all proxies are shown. */
function offerOrders(whole) {
  const missing = ["rate"];
  for (const option of inputs.order.options) option.hidden = whole && missing.includes(option.value);
  if (whole && missing.includes(inputs.order.value)) {
    before = inputs.order.value;
    inputs.order.value = "age";
    asked = JSON.stringify(query()); // the stream's sessions are not shown
    headings();
  } else if (!whole && before !== null) {
    if (inputs.order.value === "age") inputs.order.value = before; // no other one was chosen
    before = null;
    changed();
  }
}

function headings() {
  byId("session-heads").replaceChildren(...columns.map((column) => {
    const sorted = !wantsEnded() && column.order && inputs.order.value === column.order;
    const inner = column.order && !wantsEnded() ? h("button", { type: "button", class: "sort", on_click: () => { inputs.order.value = column.order; changed(); } }, column.label) : column.label;
    return h("th", { scope: "col", class: kindOf(column) || null, "aria-sort": sorted ? (column.num ? "descending" : "ascending") : null }, inner);
  }));
}

let asked = "";
function changed() {
  headings();
  inputs.order.disabled = wantsEnded();
  if (wantsEnded()) refreshEnded().catch(() => { /* the next time that the page is shown */ });
  const wanted = JSON.stringify(query());
  if (wanted !== asked) {
    asked = wanted;
    requery();
  }
  showSessions(null, null);
}

/** filterChanged is for a filter that the user has changed. */
function filterChanged() {
  findEnded = null;
  changed();
}

/** start sets the filters up; ask is called when the stream must be asked for other sessions. */
export function startSessions(ask) {
  inputs.state.replaceChildren(...["", ...states].map((state) => h("option", { value: state }, state || "live")));
  inputs.order.replaceChildren(...Object.entries(orders).map(([value, label]) => h("option", { value }, label)));
  asked = JSON.stringify(query());
  requery = ask;
  headings();
  for (const [name, input] of Object.entries(inputs)) if (name !== "text") input.addEventListener("change", filterChanged);
  let timer = 0;
  inputs.text.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(filterChanged, 250);
  });
  inputs.text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && /^[a-z2-7]{8}-\d+$/.test(typed())) openSession(typed());
    else if (event.key === "ArrowDown" && body.firstChild) focus(body.firstChild);
    else if (event.key === "Escape" && inputs.text.value) {
      inputs.text.value = "";
      filterChanged();
    } else if (event.key === "Escape") inputs.text.blur();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  body.addEventListener("pointermove", () => { touched = Date.now(); });
}
