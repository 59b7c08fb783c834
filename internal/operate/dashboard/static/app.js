// The page: it follows the stream of events, and shows each part when its data comes.

import { Failure, events, expired, get, hasToken, setToken } from "./api.js";
import { attribute, byId, h, keyed, marked, text } from "./dom.js";
import { ago, duration, known, moment, plural } from "./format.js";
import { problems, refreshPast, setCommands, summary } from "./problems.js";
import { showServices } from "./services.js";
import { showTenants } from "./tenants.js";
import { showCertificates } from "./certificates.js";
import { showBackends } from "./backends.js";
import { history, mergeHistory, recolor, showCharts } from "./charts.js";
import { addEnded, forgetEnded, readEnded, showEnds, showQueue } from "./ends.js";
import { liveSessions, query, refreshFleet, refreshEnded, showSessions, startSessions } from "./sessions.js";
import { closeSession, refreshSession } from "./detail.js";
import { showFailover } from "./failover.js";
import { inFleet, showFleet, startFleet, wholeFleet } from "./fleet.js";
import { forgetConfiguration, showConfiguration } from "./configuration.js";
import { addAudit, showAudit } from "./audit.js";
import { logInForm } from "./login.js";

const longestPause = 15000; // between two attempts to connect, in milliseconds
const hiddenFor = 60000; // a hidden page lets go of the stream after this time

let stats = null; // of all proxies, if the page shows them
let own = null; // of this proxy
let stream = null; // the AbortController of the present stream
let streamed = null; // all sessions and waiting clients, as of the last statistics; null if the stream has only some of them
let failures = 0; // attempts in a row without an event
let retryTimer = 0;

// The parts of the page.

function showProblems() {
  const { points } = history();
  const found = problems(stats);
  const worst = found.some((p) => p.level === "bad") ? "bad" : found[0]?.level;
  const verdict = document.querySelector(".verdict");
  attribute(verdict, "data-level", worst === "bad" || worst === "warn" ? worst : "ok");
  const line = summary(stats, found);
  text(byId("verdict"), line);
  keyed(byId("problems"), found, (p) => p.key, () => {
    const level = h("span", { class: "pill" });
    const what = h("strong");
    const evidence = h("span");
    const link = h("a", {}, what, " ", evidence);
    const since = h("span", { class: "muted since" });
    const kind = h("span", { class: "kind muted", title: "docs/troubleshoot.md explains this kind of problem" });
    const cure = h("code", { class: "cure" });
    return { node: h("li", {}, level, h("div", {}, link, " ", since, " ", kind, cure)), level, link, what, evidence, since, kind, cure };
  }, (row, p) => {
    text(row.level, { clients: "hurts clients", "clients-soon": "may hurt soon", operator: "to know" }[p.hurts] ?? "note");
    attribute(row.level, "data-level", p.level);
    text(row.what, p.what);
    marked(row.evidence, p.text);
    text(row.since, known(p.since) ? `for ${ago(p.since)}, since ${moment(p.since)}` : "");
    attribute(row.level, "title", { bad: "a failure", warn: "a warning" }[p.level] ?? null);
    text(row.kind, p.kind ?? "");
    text(row.cure, p.cure);
    row.cure.hidden = p.cure === "";
    attribute(row.link, "href", `#${p.where}`);
  });
  showFailover(stats, points);
  const wrong = found.filter((p) => p.level !== "info");
  document.title = wrong.length > 0 ? `(${wrong.length}) wsbouncer` : "wsbouncer";
  // A screen reader hears which problems come and go, not each number.
  const keys = wrong.map((p) => p.key).join();
  if (byId("announce").dataset.keys !== keys) {
    byId("announce").dataset.keys = keys;
    text(byId("announce"), wrong.length > 0 ? wrong.map((p) => `${p.what}: ${p.text}.`).join(" ") : "All is well.");
  }
}

/**
 * refreshQueue shows who waits. The stream's sessions are of the same moment as the statistics: the page asks for the waiting clients only where the
 * stream does not have all of them.
 */
async function refreshQueue() {
  if (streamed) return showQueue(streamed.filter((s) => s.state === "waiting").sort((a, b) => b.waited_seconds - a.waited_seconds));
  if (stats.services.every((service) => service.queue.waiting === 0)) return showQueue([]);
  const { sessions, matched } = await get("sessions", { state: "waiting", sort: "waited", limit: 20 });
  showQueue(sessions, matched);
}

let asking = false;
async function slowParts() {
  if (asking) return;
  asking = true;
  const mine = stream;
  try {
    await Promise.all([readEnded().then(() => { if (own) showEnds(own); }), refreshQueue(), refreshEnded(), refreshPast(stats), showConfiguration(stats), refreshSession()]);
  } catch (error) {
    if (!(error instanceof Failure) || refusals.includes(error.status)) failed(error, mine); // if the proxy is away, the statistics do not come either
  } finally {
    asking = false;
  }
}

function showStats(fresh) {
  if (stats && fresh.uptime_seconds < stats.uptime_seconds) forgetConfiguration(); // the proxy was restarted
  stats = fresh;
  text(byId("process"), `${stats.version} · up ${duration(stats.uptime_seconds)} · ${plural(stats.sessions.active, "session")}`);
  showProblems();
  showFleet(stats);
  showServices(stats);
  showTenants(stats);
  showCertificates(own);
  showBackends(stats);
  showEnds(own);
  showSessions(null, stats);
  slowParts();
}

/** received shows the statistics of the stream, which are those of this proxy, or asks for those of the fleet in their place. */
async function received(now) {
  if (wholeFleet()) streamed = null;
  const mine = stream;
  try {
    const fresh = await inFleet(now);
    if (mine !== stream || mine.signal.aborted) return;
    own = now;
    if (fresh !== null) {
      connected();
      showStats(fresh);
    }
    if (wholeFleet()) await refreshFleet();
  } catch (error) {
    failed(error, mine);
  }
}

const handlers = {
  stats: received,
  sessions: (list) => {
    if (wholeFleet()) return;
    streamed = list.sessions.length === list.total ? list.sessions : null;
    liveSessions(list);
    if (streamed) refreshQueue();
  },
  history: (part) => { mergeHistory(part); showCharts(); if (stats) showProblems(); },
  ended: (list) => { addEnded(list, true); if (own) showEnds(own); },
  audit: (list) => { addAudit(list); showAudit(); },
};

// The connection to the proxy.

function connected() {
  failures = 0;
  attribute(byId("link"), "data-state", "live");
  text(byId("link-text"), "live");
  byId("lost").hidden = true;
  attribute(document.body, "data-lost", null);
}

function lost(error) {
  failures++;
  stream.abort(); // after a request for the fleet, it may still send
  attribute(byId("link"), "data-state", "lost");
  text(byId("link-text"), "not connected");
  attribute(document.body, "data-lost", "yes");
  if (stats === null) text(byId("verdict"), "Waiting for the proxy");
  document.title = "(away) wsbouncer";
  const pause = Math.min(longestPause, 500 * 2 ** failures) * (0.75 + Math.random() / 2);
  const until = Date.now() + pause;
  const tell = () => {
    const left = Math.ceil((until - Date.now()) / 1000);
    byId("lost").hidden = false;
    const message = error.message.charAt(0).toUpperCase() + error.message.slice(1);
    text(byId("lost-text"), `${message}.${stats ? " The page shows what it knew last." : ""}`); // screen readers speak this each time that it changes
    text(byId("lost-next"), `Next attempt ${left > 1 ? `in ${left} s` : "now"}.`);
    if (left > 0) retryTimer = setTimeout(tell, 500);
    else follow();
  };
  clearTimeout(retryTimer);
  tell();
}

function wantToken(message) {
  setToken(null);
  stream?.abort();
  byId("sign-out").hidden = true;
  showAccess(null);
  attribute(byId("link"), "data-state", "lost");
  text(byId("link-text"), "not logged in");
  logInForm(message, follow);
}

const refusals = [401, 429]; // of requests without a right token

/** failed deals with the error of a stream, or of a request for what the page shows beside it. */
function failed(error, of) {
  if (!(error instanceof Failure)) throw error;
  if (of !== stream || of.signal.aborted) return; // another stream follows, or the page is hidden
  if (error.status === 401) wantToken(hasToken() ? "The proxy no longer accepts the token." : "This proxy asks for a token.");
  else if (error.status === 429) wantToken("Too many wrong tokens came from your address. Wait a minute.");
  else lost(error);
}

/** showAccess shows whom the proxy takes the page for. Readers see no actions: the proxy would refuse them. */
function showAccess(access) {
  setCommands(access);
  attribute(document.body, "data-role", access?.role ?? null);
  text(byId("access"), access ? access.role : "");
  attribute(byId("access"), "title", access ? `The proxy knows this page as: ${access.caller}, from ${access.from}` : null);
}

/** follow reads the stream, and after it ends, connects again. Only one stream is open at a time. */
async function follow() {
  clearTimeout(retryTimer);
  if (stream === null || stream.signal.aborted) forgetConfiguration(); // another process may answer now, with other contents under the same versions
  stream?.abort();
  const mine = stream = new AbortController();
  if (expired()) return wantToken("This tab has kept the token for 12 hours, and has forgotten it.");
  try {
    showAccess(await get("access"));
    if (mine !== stream || mine.signal.aborted) return;
    byId("sign-out").hidden = !hasToken();
    forgetEnded();
    await events(query(), mine.signal, (name, data) => {
      if (mine !== stream || mine.signal.aborted) return;
      if (!wholeFleet()) connected(); // the page of a fleet shows mostly what it asks for
      handlers[name]?.(data);
    });
  } catch (error) {
    failed(error, mine);
  }
}

// What the user does.

const themes = ["system", "light", "dark"];
function theme(next) {
  const chosen = document.documentElement.dataset.theme ?? "system";
  const wanted = next ? themes[(themes.indexOf(chosen) + 1) % themes.length] : chosen;
  if (wanted === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = wanted;
  text(byId("theme"), `Theme: ${wanted}`);
  if (!next) return;
  try { localStorage.setItem("wsbouncer.theme", wanted); } catch { /* no storage: it lasts as long as the page */ }
  recolor();
}
byId("theme").addEventListener("click", () => theme(true));
byId("retry").addEventListener("click", follow);
byId("sign-out").addEventListener("click", () => {
  setToken(null);
  location.reload();
});
byId("sign-out").hidden = !hasToken();
setInterval(() => { if (expired()) wantToken("This tab has kept the token for 12 hours, and has forgotten it."); }, 60000);
addEventListener("acted", () => { forgetConfiguration(); if (stats) slowParts(); });

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
  const typing = event.target.matches?.("input, select, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    byId("filter").focus();
    byId("filter").select();
  } else if (event.key === "Escape") {
    const menu = document.querySelector("details.menu[open]");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    } else closeSession();
  }
});

let hiddenTimer = 0;
function letGoIfHidden() {
  clearTimeout(hiddenTimer);
  if (document.hidden) hiddenTimer = setTimeout(() => { clearTimeout(retryTimer); stream.abort(); }, hiddenFor);
}
document.addEventListener("visibilitychange", () => {
  letGoIfHidden();
  if (!document.hidden && stream.signal.aborted) follow();
});

theme(false);
startSessions(follow);
startFleet(follow);
showAudit();
follow();
letGoIfHidden(); // a tab that was opened in the background
