// The audit log: what operators did to the running proxy.

import { attribute, byId, cell, empty, h, keyed, text } from "./dom.js";
import { moment } from "./format.js";

const kept = 50;
const body = byId("audit-rows");
let actions = []; // newest first

const key = (a) => `${a.time} ${a.action} ${a.target} ${a.from}`;

/** addAudit takes entries, oldest first; some may be known already. */
export function addAudit(list) {
  const known = new Set(actions.map(key));
  actions = [...list.filter((a) => !known.has(key(a))).reverse(), ...actions].slice(0, kept);
}

function create() {
  const cells = [["Time", "num"], ["Who", ""], ["Action", ""], ["Why", ""], ["Outcome", ""]].map(([label, kind]) => cell(label, kind));
  return { node: h("tr", {}, cells), cells };
}

function update(row, a) {
  // What was done needs no word: the others do.
  const outcome = a.result === "done" ? a.detail : [a.result, a.detail].filter(Boolean).join(": ");
  [moment(a.time), a.who || a.caller || "unknown", `${a.action} ${a.target}`, a.why || "–", outcome || "–"].forEach((value, i) => text(row.cells[i], value));
  attribute(row.node, "title", [a.caller, `from ${a.from}`].filter(Boolean).join(", "));
  attribute(row.node, "data-result", a.result);
}

export function showAudit() {
  keyed(body, actions, key, create, update);
  empty(body, 5, actions.length === 0 ? "No action on this proxy since it started." : "");
}
