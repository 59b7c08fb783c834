// The panel with everything about one session.

import { Failure, get } from "./api.js";
import { attribute, byId, h, text } from "./dom.js";
import { bytes, count, duration, firstReply, known, moment, orNone, plural, rate } from "./format.js";
import { endSession } from "./actions.js";
import { failoverFacts, replayed, took } from "./failover.js";

const panel = byId("detail");
let id = null;
let opener = null;
let session = null;
let ticket = 0;

export const shownSession = () => id;

const title = h("h2", { id: "detail-title", tabindex: "-1" });
const state = h("span", { class: "pill" });
const message = h("p", { class: "bad", role: "alert", hidden: true });
const content = h("div", { class: "facts" });
const end = h("button", { type: "button", class: "danger", on_click: () => endSession(session, refreshSession) }, "End session…");
const copy = h("button", { type: "button", on_click: async () => {
  try {
    await navigator.clipboard.writeText(id);
    text(copy, "Copied");
  } catch {
    text(copy, "Select the id above and copy it");
  }
} }, "Copy id");
panel.append(h("div", { class: "bar-title" }, title, h("button", { type: "button", class: "quiet", "aria-label": "Close the session's details", on_click: closeSession }, "Close ", h("kbd", {}, "Esc"))),
  state, message, content, h("p", { class: "buttons" }, end, copy));

/** openSession shows a session; the panel follows it until it is closed. */
export function openSession(wanted) {
  opener = document.activeElement;
  id = wanted;
  session = null;
  text(title, wanted);
  text(copy, "Copy id");
  text(state, "loading");
  content.replaceChildren();
  message.hidden = true;
  end.disabled = true;
  panel.hidden = false;
  mark();
  title.focus({ preventScroll: true });
  refreshSession();
}

export function closeSession() {
  if (id === null) return false;
  id = null;
  panel.hidden = true;
  mark();
  if (opener?.isConnected) opener.focus({ preventScroll: true });
  return true;
}

function mark() {
  for (const row of document.querySelectorAll("#session-rows tr")) attribute(row, "data-shown", row.dataset.id === id ? "yes" : null);
}

/** refreshSession asks for the session again. */
export async function refreshSession() {
  if (id === null) return;
  const mine = ++ticket;
  const wanted = id;
  try {
    const fresh = await get(`sessions/${encodeURIComponent(wanted)}`);
    if (mine === ticket && id === wanted) show(fresh);
  } catch (error) {
    if (mine !== ticket || id !== wanted || !(error instanceof Failure)) return;
    end.disabled = true;
    message.hidden = false;
    text(message, error.message);
    if (error.nearest) message.append(" ", h("button", { type: "button", class: "link-button", on_click: () => openSession(error.nearest) }, `Open ${error.nearest}`));
    if (session === null) text(state, error.status === 404 ? "unknown" : "no answer");
  }
}

const traffic = (frames, size) => `${plural(frames, "frame")}, ${bytes(size)}`;

/** fates are what became of a connection at the end of a session, in words. */
const fates = { returned: "returned to the pool", resetting: "reset, then returned; discarded if the reset failed", ended: "closed, after the server was told of the end", discarded: "discarded" };

function facts(s) {
  const groups = [];
  const group = (name, ...rows) => {
    const shown = rows.filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false);
    if (shown.length > 0) groups.push([name, shown]);
  };
  if (s.state === "ended" || s.by) {
    const over = s.state === "ended"; // otherwise its end is decided, and it waits for the last results or the client's close frame
    group("End", [over ? "Ended" : "Ending since", known(s.ended) && `${moment(s.ended)}`], ["Ended by", s.by], ["Close code", s.code], ["Reason", s.reason], ["Class", s.class],
      ["Connection", fates[s.connection_fate] ?? s.connection_fate]);
  }
  if (s.queue) {
    group("Queue", ["Place", `${count(s.queue.place)} of ${count(s.queue.waiting)}`], ["Has waited", duration(s.queue.waited_seconds)],
      ["May wait", `${duration(s.queue.timeout_seconds)} more`]);
  }
  group("Session", ["Client", s.client], ["Peer", s.peer], ["Tenant", s.tenant], ["Subject", s.subject], ["Authenticated by", s.auth],
    ["Key", s.key], ["Service", s.service], ["Path", s.path], ["Host", s.host], ["Profile", s.profile],
    ["Started", moment(s.started)], ["Age", duration(s.age_seconds)], ["Waited", orNone(s.waited_seconds)], ["First reply", firstReply(s)],
    ["Request id", s.request_id], ["Trace id", s.trace_id], ["Tapped by", s.taps ? plural(s.taps, "operator") : ""]);
  group("Traffic", ["From the client", traffic(s.frames_from_client, s.bytes_from_client)], ["From the backend", traffic(s.frames_from_backend, s.bytes_from_backend)],
    ["Audio from the client", s.audio_in_seconds > 0 && `${s.audio_in_estimated_seconds ? "~" : ""}${duration(s.audio_in_seconds)}`],
    ["Msg/s", s.frames_per_second ? rate(s.frames_per_second) : ""], ["Lag", s.lag_seconds ? duration(s.lag_seconds) : ""], ["Result owed for", s.owed_seconds ? duration(s.owed_seconds) : ""],
    ["Last from the client", s.client_silent_seconds ? `${duration(s.client_silent_seconds)} ago` : ""], ["Last from the backend", s.backend_silent_seconds ? `${duration(s.backend_silent_seconds)} ago` : ""],
    ["To the client", s.pending_to_client > 0 && `${bytes(s.pending_to_client)} not taken yet`], ["To the backend", s.pending_to_backend > 0 && `${bytes(s.pending_to_backend)} not taken yet`],
    ["Reading", [s.paused && "the client is paused", s.held_back && `the client is held back by ${s.held_back.limit}`, s.backend_paused && "the backend is paused"].filter(Boolean).join(", ")]);
  group("Failover", ...failoverFacts(s));
  const c = s.server;
  group("Connection", ["Backend", s.backend], ["Id", c?.id ?? s.connection], ["State", c?.state], ["Established", c && moment(c.established)], ["Age", c && duration(c.age_seconds)],
    ["Sessions served", c && count(c.sessions)], ["Ping", c && orNone(c.round_trip_seconds)], ["Subprotocol", c?.subprotocol], ["Variant", s.variant],
    ["Moves", s.moves ? plural(s.moves, "connection") + " could not serve it" : ""], ["Boundary", c?.boundary]);
  return groups;
}

const moveItem = (m) => h("li", {}, h("span", {}, `${moment(m.time)} · ${m.from} → ${m.to}`),
  h("span", { class: "sub" }, `${m.cause} · replayed ${replayed(m)} · took ${took(m)}`));

let shape = ""; // of what is shown: while it stays, only the values change, and a selected text stays selected

function show(fresh) {
  session = fresh;
  message.hidden = true;
  text(state, fresh.state);
  attribute(state, "data-level", { relaying: "ok", ended: "off", lingering: "off", waiting: "warn", moving: "warn", parked: "warn" }[fresh.state] ?? "info");
  end.disabled = fresh.state === "ended";
  const groups = facts(fresh);
  const before = fresh.before ?? [];
  const moves = fresh.failover?.moves ?? [];
  const now = JSON.stringify([fresh.id, groups.map(([name, rows]) => [name, rows.map(([label]) => label)]), before.map((b) => b.id), moves]);
  if (now !== shape || content.childElementCount === 0) {
    shape = now;
    content.replaceChildren(...groups.map(([name, rows]) => h("section", {}, h("h3", {}, name), h("dl", {}, rows.map(([label]) => [h("dt", {}, label), h("dd")])))));
    if (moves.length > 0) content.append(h("section", {}, h("h3", {}, "Moves to other backends"), h("ul", { class: "moves" }, moves.map(moveItem))));
    if (before.length > 0) {
      content.append(h("section", {}, h("h3", {}, "Earlier sessions of this connection"), h("ul", { class: "before" }, before.map((b) => h("li", {},
        h("button", { type: "button", class: "link-button", on_click: () => openSession(b.id) }, b.id),
        h("span", { class: "muted" }, ` ${moment(b.ended)} · ${b.client} · ${b.code || "no code"}${b.reason ? ` ${b.reason}` : ""}`))))));
    }
  }
  const values = content.querySelectorAll("dd");
  groups.flatMap(([, rows]) => rows).forEach(([, value], i) => text(values[i], value));
}
