// The table of proxies, which is there when several share the servers, and the switch between all of them and this one.

import { get, setWhole } from "./api.js";
import { attribute, byId, cell, h, keyed, text } from "./dom.js";
import { count, duration } from "./format.js";

const panel = byId("fleet");
const body = byId("proxy-rows");
const view = byId("fleet-view");
const more = byId("all-proxies");
const shown = 8; // more proxies are shown on demand; those with problems come first

let isFleet = false;
let chosen = true; // all proxies, rather than this one
let asking = false;
let everyone = false; // all rows are shown
let last = null;

more.addEventListener("click", () => { everyone = !everyone; if (last) showFleet(last); });

function learn(fleet) {
  isFleet = fleet?.mode === "fleet" && fleet.proxies.length > 1;
  setWhole(isFleet && chosen);
}

/** wholeFleet reports whether the page shows all proxies. */
export const wholeFleet = () => isFleet && chosen;

function create() {
  const row = {};
  const name = h("strong");
  const sub = h("span", { class: "sub" });
  const pill = h("span", { class: "pill" });
  const why = h("span", { class: "sub" });
  const numbers = ["Seen", "Sessions", "Places", "Configuration", "Version"].map((label, i) => cell(label, i < 3 ? "num" : ""));
  row.node = h("tr", {}, h("th", { scope: "row" }, name, sub), cell("State", "", pill, why), ...numbers);
  return Object.assign(row, { name, sub, pill, why, numbers });
}

function update(row, proxy) {
  text(row.name, proxy.name);
  const id = proxy.id.slice(0, 8); // commands take the beginning, too
  text(row.sub, proxy.self ? `${id} · this one` : `${id}${proxy.address ? ` · ${proxy.address}` : ""}`);
  attribute(row.sub, "title", proxy.id);
  text(row.pill, proxy.state);
  attribute(row.pill, "data-level", proxy.problem ? "bad" : { serving: "ok", draining: "off" }[proxy.state] ?? "info");
  text(row.why, proxy.problem ?? "");
  text(row.numbers[0], proxy.self || proxy.seen_seconds < 1 ? "now" : `${duration(proxy.seen_seconds)} ago`);
  text(row.numbers[1], count(proxy.sessions));
  text(row.numbers[2], count(proxy.places));
  text(row.numbers[3], proxy.configuration ?? "–");
  text(row.numbers[4], proxy.version);
}

/** showFleet shows the proxies. */
export function showFleet(stats) {
  const fleet = stats.fleet;
  learn(fleet);
  last = stats;
  panel.hidden = !isFleet;
  attribute(document.body, "data-fleet", isFleet && fleet.whole ? "yes" : null);
  if (!isFleet) return;
  const total = fleet.proxies.length;
  let rows = [...fleet.proxies].sort((a, b) => Boolean(b.problem) - Boolean(a.problem) || Boolean(b.self) - Boolean(a.self));
  more.hidden = total <= shown;
  text(more, everyone ? `Show the first ${shown}` : `Show all ${total} proxies`);
  if (!everyone) rows = rows.slice(0, shown);
  keyed(body, rows, (proxy) => proxy.id, create, update);
  const missing = (fleet.missing ?? []).length;
  text(byId("fleet-note"), !fleet.whole ? "The page shows this proxy only."
    : missing > 0 ? `Sums of ${total - missing} of ${total} proxies: ${missing} cannot be asked.`
      : `Sums of all ${total} proxies.`);
}

/** inFleet returns the statistics of all proxies, if the page shows those, and otherwise the given ones of this proxy; null if it is asking already. */
export async function inFleet(own) {
  learn(own.fleet);
  if (!wholeFleet()) return own;
  if (asking) return null;
  asking = true;
  try {
    return await get("stats");
  } finally {
    asking = false;
  }
}

/** startFleet sets the switch up; changed is called when it is used. */
export function startFleet(changed) {
  view.value = "all";
  view.addEventListener("change", () => {
    chosen = view.value === "all";
    setWhole(isFleet && chosen);
    changed();
  });
}
