// What an operator does: each action says first what it will do, and asks who does it and why.

import { Failure, change } from "./api.js";
import { h, text, toast } from "./dom.js";
import { count, plural } from "./format.js";
import { takes } from "./problems.js";

const whoKey = "wsbouncer.who";

/**
 * ask opens a dialog and carries the action out when the operator confirms it. What the proxy refuses is shown in the dialog, which
 * stays open. run gets who, why and what was chosen, if there is a choice, and returns what to say afterwards.
 */
function ask({ title, lines, label, danger, run, whyHint, whyNeeded, choice }) {
  let remembered = "";
  try { remembered = localStorage.getItem(whoKey) ?? ""; } catch { /* no storage */ }
  const who = h("input", { name: "who", required: true, maxlength: 100, autocomplete: "username", value: remembered });
  const why = h("input", { name: "why", required: whyNeeded ?? true, maxlength: 120, autocomplete: "off" });
  const chosen = choice && h("select", { name: "choice" }, choice.options.map(([value, name]) => h("option", { value }, name)));
  const refused = h("p", { class: "bad", role: "alert", hidden: true });
  const confirm = h("button", { type: "submit", class: danger ? "danger" : "primary" }, label);
  const cancel = h("button", { type: "button", on_click: () => dialog.close() }, "Cancel");
  const form = h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, title), h("ul", { class: "lines" }, lines.filter(Boolean).map((line) => h("li", {}, line))),
    h("label", {}, h("span", {}, "Who are you?"), who), h("label", {}, h("span", {}, "Why?", h("span", { class: "muted" }, ` ${whyHint ?? "for the audit log"}`)), why),
    choice && h("label", {}, h("span", {}, choice.label), chosen), refused, h("p", { class: "buttons" }, confirm, cancel));
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try { localStorage.setItem(whoKey, who.value.trim()); } catch { /* no storage */ }
    confirm.disabled = true;
    refused.hidden = true;
    try {
      toast(await run(who.value.trim(), why.value.trim(), chosen?.value));
      dialog.close();
      dispatchEvent(new Event("acted"));
    } catch (error) {
      refused.hidden = false;
      text(refused, explain(error));
    } finally {
      confirm.disabled = false;
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  (remembered ? why : who).focus();
}

/** explain says why the proxy refused an action. */
function explain(error) {
  if (!(error instanceof Failure)) return `This page has failed: ${error.message}`;
  if (error.kind === "read-only") return `The configuration is read-only here: ${error.message}. Change it at its source.`;
  if (error.status === 0) return `Nothing is known to have happened: ${error.message}.`;
  return `The proxy refused: ${error.message}`;
}

const order = (who, why) => ({ who, why });

export function endSession(session, done) {
  ask({
    title: `End session ${session.id}?`, label: "End session", danger: true, whyHint: "the client is told, and the audit log",
    lines: [
      session.state === "waiting" ? `The client ${session.client} waits in the queue of ${session.service}: it gets HTTP 503.` : `The client ${session.client} gets close code 1012 and the reason.`,
      session.backend && session.state !== "waiting" ? `Its connection to ${session.backend} is made clean for the next session, or replaced.` : "",
      "Most clients connect again at once.",
    ],
    run: async (who, why) => {
      const outcome = await change("DELETE", `sessions/${encodeURIComponent(session.id)}`, order(who, why));
      done?.();
      return outcome.text || `Session ${session.id} was ended.`;
    },
  });
}

export function endAllOf(backend) {
  ask({
    title: `End all sessions of ${backend.name}?`, label: `End ${plural(backend.leased, "session")}`, danger: true, whyHint: "the clients are told, and the audit log",
    lines: [
      `${plural(backend.leased, "client")} of ${backend.name} ${backend.leased === 1 ? "gets" : "get"} close code 1012 and the reason.`,
      backend.state === "enabled" ? `${backend.name} is enabled: clients that connect again may come back to it. Drain it first to empty it.` : `${backend.name} is ${backend.state}: no session begins there.`,
    ],
    // Clients that are all cut off at once all connect again at once.
    choice: { label: "Over what time?", options: [["30s", "over 30 seconds"], ["2m", "over 2 minutes"], ["10m", "over 10 minutes"], ["", "at once"]] },
    run: async (who, why, within) => {
      const outcome = await change("DELETE", "sessions", order(who, why), { backend: backend.name, within });
      return outcome.text || `${plural(outcome.sessions ?? 0, "session")} of ${backend.name} were ended.`;
    },
  });
}

/** others says what is left of a service while one of its backends takes no sessions. */
function others(backend, stats) {
  const rest = stats.backends.filter((b) => b.service === backend.service && b.name !== backend.name && takes(b));
  if (rest.length === 0) return `No other backend of ${backend.service} takes sessions: its clients will wait in the queue.`;
  const cap = rest.reduce((n, b) => n + b.cap, 0);
  const leased = rest.reduce((n, b) => n + b.leased, 0);
  return `${plural(rest.length, "other backend")} of ${backend.service} ${rest.length === 1 ? "goes" : "go"} on: ${count(leased)} of ${plural(cap, "place")} leased.`;
}

export function setBackendState(backend, state, stats) {
  const going = backend.leased > 0 ? `${plural(backend.leased, "session")} on it ${backend.leased === 1 ? "goes" : "go"} on until ${backend.leased === 1 ? "it ends" : "they end"}.` : "It has no session now.";
  const what = {
    enabled: { title: `Enable ${backend.name}?`, label: "Enable", lines: [`${backend.name} gets sessions again, and its warm connections are opened (${backend.warm}).`] },
    draining: { title: `Drain ${backend.name}?`, label: "Drain", lines: [`${backend.name} gets no new sessions.`, going, "Its idle connections stay open.", others(backend, stats)] },
    disabled: { title: `Disable ${backend.name}?`, label: "Disable", lines: [`${backend.name} gets no new sessions.`, going, "Its idle connections are closed now.", others(backend, stats)] },
  }[state];
  ask({
    ...what, danger: state !== "enabled", whyHint: "for the configuration's history",
    lines: [...what.lines, stats.configuration.source === "flags"
      ? "The configuration comes from flags: the change is lost when the proxy starts again." : "This changes the configuration, and stays after a restart."],
    run: async (who, why) => {
      const outcome = await change("POST", "config/changes", { who, why, mutations: [{ verb: "set", kind: "backend", name: backend.name, values: { state } }] });
      return `${backend.name} is ${state} in version ${outcome.version} of the configuration.`;
    },
  });
}

export function recycleBackend(backend) {
  ask({
    title: `Recycle the connections of ${backend.name}?`, label: "Recycle",
    lines: [
      `${plural(backend.idle, "idle connection")} ${backend.idle === 1 ? "is" : "are"} replaced now, a few at a time.`,
      `${plural(backend.leased + backend.resetting, "connection")} in use ${backend.leased + backend.resetting === 1 ? "is" : "are"} replaced when ${backend.leased + backend.resetting === 1 ? "its session" : "their sessions"} end${backend.leased + backend.resetting === 1 ? "s" : ""}.`,
      "No session is cut.",
    ],
    run: async (who, why) => {
      const outcome = await change("POST", `backends/${encodeURIComponent(backend.name)}/recycle`, order(who, why));
      return outcome.text || `The connections of ${backend.name} are being replaced.`;
    },
  });
}

export function pauseService(service) {
  const { limit } = service.queue;
  ask({
    title: `Pause service ${service.name}?`, label: "Pause", danger: true,
    lines: ["New clients wait in the queue until you resume the service.", "Sessions that run go on.",
      limit > 0 ? `The queue takes ${plural(limit, "client")}; more, and those that wait too long, get HTTP 503.` : "The service has no queue: new clients get HTTP 503."],
    run: async (who, why) => {
      const outcome = await change("POST", `services/${encodeURIComponent(service.name)}/pause`, order(who, why));
      return outcome.text || `Service ${service.name} is paused.`;
    },
  });
}

export function resumeService(service) {
  ask({
    title: `Resume service ${service.name}?`, label: "Resume", whyNeeded: false,
    lines: [`${plural(service.queue.waiting, "client")} in the queue ${service.queue.waiting === 1 ? "gets a connection as it becomes" : "get connections as they become"} free.`],
    run: async (who, why) => {
      const outcome = await change("POST", `services/${encodeURIComponent(service.name)}/resume`, order(who, why));
      return outcome.text || `Service ${service.name} is resumed.`;
    },
  });
}
