// The configuration: version and state, what is in it, who changed what, and the differences between two versions.

import { Failure, get } from "./api.js";
import { attribute, byId, h, marked, text } from "./dom.js";
import { ago, known, moment, plural } from "./format.js";

const body = byId("configuration-body");
const refused = h("p", { class: "muted small", hidden: true });
const historyList = h("ul", { class: "history" });
const from = h("select", {});
const to = h("select", {});
const difference = h("ul", { class: "edits", "aria-live": "polite" });
const comparison = h("div", { class: "compare", hidden: true }, h("h3", {}, "Differences"),
  h("div", { class: "filters" }, h("label", {}, h("span", {}, "From version"), from), h("label", {}, h("span", {}, "To version"), to)), difference);
const entities = h("div", { class: "entities" });
body.append(refused, entities, h("h3", {}, "History"), historyList, comparison);

let shown = null; // the version whose history is shown
let busy = false;
let versions = new Map(); // contents by version, which never change in one process of the proxy; those of the history that is shown

/** editLine returns an edit as a line: + for added, - for removed. */
function editLine(edit) {
  const sign = { added: "+", removed: "−", changed: "~" }[edit.action] ?? "";
  const name = `${edit.kind} ${edit.name}`;
  let what = name;
  if (edit.action === "changed") what = `${name}: ${edit.field} ${edit.from || "none"} → ${edit.to || "none"}`;
  else if (edit.values) what = `${name}: ${Object.entries(edit.values).map(([field, value]) => `${field} ${value}`).join(", ")}`;
  return h("li", { class: edit.action }, h("span", { class: "sign", "aria-label": edit.action }, sign), h("span", {}, what));
}

function flatten(entity, prefix = "") {
  const fields = {};
  for (const [name, value] of Object.entries(entity)) {
    if (value !== null && typeof value === "object" && !Array.isArray(value)) Object.assign(fields, flatten(value, `${prefix}${name}.`));
    else fields[prefix + name] = Array.isArray(value) ? value.join(", ") : String(value);
  }
  return fields;
}

const kinds = { profiles: "profile", services: "service", backends: "backend", tenants: "tenant", keys: "key" }; // all of the proxy's, in its order

/** differences returns the edits that lead from one content to another. */
function differences(before, after) {
  const edits = [];
  for (const [section, kind] of Object.entries(kinds)) {
    const [a, b] = [before[section] ?? {}, after[section] ?? {}];
    for (const name of [...new Set([...Object.keys(a), ...Object.keys(b)])].sort()) {
      const [old, fresh] = [a[name] && flatten(a[name]), b[name] && flatten(b[name])];
      if (!old) edits.push({ action: "added", kind, name, values: fresh });
      else if (!fresh) edits.push({ action: "removed", kind, name, values: old });
      else {
        for (const field of [...new Set([...Object.keys(old), ...Object.keys(fresh)])].sort()) {
          if (old[field] !== fresh[field]) edits.push({ action: "changed", kind, name, field, from: old[field] ?? "default", to: fresh[field] ?? "default" });
        }
      }
    }
  }
  return edits;
}

async function compare() {
  const pair = [from.value, to.value];
  const cache = versions;
  try {
    const [before, after] = await Promise.all(pair.map(async (name) => {
      if (!cache.has(name)) cache.set(name, await get(`config/versions/${encodeURIComponent(name)}`));
      return cache.get(name);
    }));
    if (cache !== versions || from.value !== pair[0] || to.value !== pair[1]) return;
    const edits = differences(before, after);
    difference.replaceChildren(...(edits.length > 0 ? edits.map(editLine) : [h("li", {}, "No difference, other than of secrets: those are hidden.")]));
  } catch (error) {
    difference.replaceChildren(h("li", { class: "bad" }, error.message));
  }
}
from.addEventListener("change", compare);
to.addEventListener("change", compare);

function showContent(content) {
  entities.replaceChildren(...Object.entries(kinds).filter(([section]) => Object.keys(content[section] ?? {}).length > 0).map(([section, kind]) => {
    const all = Object.entries(content[section]);
    return h("details", {}, h("summary", {}, plural(all.length, kind)), h("dl", {}, all.map(([name, entity]) => [h("dt", {}, name),
      h("dd", {}, Object.entries(flatten(entity)).map(([field, value]) => `${field} ${value}`).join(" · "))])));
  }));
}

function showHistory(revisions) {
  historyList.replaceChildren(...revisions.map((r) => {
    const edits = r.edits ?? [];
    return h("li", {}, h("details", {}, h("summary", {}, h("strong", {}, r.version.length > 12 ? r.version.slice(0, 12) : r.version), ` ${r.who || "unknown"}`,
      h("span", { class: "muted" }, ` ${moment(r.at)} · ${plural(edits.length, "edit")}${r.why ? ` · ${r.why}` : ""}`)), h("ul", { class: "edits" }, edits.map(editLine))));
  }));
  if (revisions.length === 0) historyList.replaceChildren(h("li", { class: "muted" }, "This source keeps no history."));
  const has = (v) => revisions.some((r) => r.version === v);
  for (const name of versions.keys()) if (!has(name)) versions.delete(name);
  comparison.hidden = revisions.length < 2;
  if (revisions.length < 2) return;
  const kept = [from.value, to.value];
  const label = (r) => `${r.version.slice(0, 12)}, ${r.who} ${moment(r.at)}`;
  for (const select of [from, to]) select.replaceChildren(...revisions.map((r) => h("option", { value: r.version }, label(r))));
  from.value = has(kept[0]) && has(kept[1]) && kept[0] !== kept[1] ? kept[0] : revisions[1].version;
  to.value = revisions[0].version;
  compare();
}

/** showConfiguration shows what the statistics say, and asks for the rest when the version is another one. */
export async function showConfiguration(stats) {
  const c = stats.configuration;
  text(byId("configuration-state"), `version ${c.version.slice(0, 12) || "none"} · ${c.state} · ${c.source}${known(c.applied) ? ` · in force for ${ago(c.applied)}` : ""}`);
  attribute(byId("configuration-state"), "title", c.version);
  byId("configuration-reason").hidden = c.state === "current";
  marked(byId("configuration-reason"), c.reason);
  const wanted = `${c.version} ${c.state}`;
  if (shown === wanted || busy) return;
  busy = true;
  const cache = versions;
  try {
    const [content, revisions] = await Promise.all([get("config", { stale: "allowed" }), get("config/history", { limit: 20 })]);
    if (cache !== versions) return; // another process may have answered
    refused.hidden = true;
    showContent(content);
    showHistory(revisions);
    shown = wanted;
  } catch (error) {
    if (!(error instanceof Failure) || error.status === 401) throw error;
    if (cache !== versions) return;
    refused.hidden = false;
    text(refused, `The configuration cannot be shown: ${error.message}`);
    if (error.status >= 400 && error.status < 500) shown = wanted; // asking again would not help
  } finally {
    busy = false;
  }
}

/** forgetConfiguration makes the next showConfiguration ask again, for everything: another process numbers its versions anew, and so does a database that was restored. */
export function forgetConfiguration() {
  shown = null;
  versions = new Map();
}
