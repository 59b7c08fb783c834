// Failover in words: what is kept of sessions for the next backend, the times that one continued them, and how backends keep up.

import { byId, text } from "./dom.js";
import { bytes, count, duration, percent, plural } from "./format.js";

/** assurance says in a few words whether another backend could continue a session, what is kept for it, and how often one did. */
export function assurance(s) {
  const parts = [];
  if (s.assured) parts.push("assured");
  else if (s.unassured) parts.push(`not assured: ${s.unassured}`);
  if (s.kept_bytes) parts.push(bytes(s.kept_bytes));
  if (s.failovers) parts.push(`moved ${times(s.failovers)}`);
  return parts.join(" · ") || "–";
}

const times = (n) => n === 1 ? "once" : n === 2 ? "twice" : `${count(n)} times`;
const audio = (seconds) => `${seconds.toFixed(1)} s`;

/** failoverFacts returns the rows of a session's details. */
export function failoverFacts(s) {
  const f = s.failover;
  const moved = ["Moved", s.failovers ? `${times(s.failovers)} to another backend` : ""];
  if (!f) return [moved];
  const open = Math.max(0, f.audio_seconds - f.answered_seconds);
  const kept = f.kept_bytes > 0 && `${bytes(f.kept_bytes)}, in ${bytes(f.memory_bytes)} of memory`;
  return [["Assured", f.assured ? "yes: another backend could go on with it" : `no: ${f.why}`],
    ["Audio", f.audio_seconds > 0 && `${audio(f.audio_seconds)}, answered up to ${audio(f.answered_seconds)}`],
    ["Not answered", f.audio_seconds > 0 && audio(open)], ["Kept", kept], moved];
}

/** replayed says how much audio a backend got again when a session moved to it. */
export const replayed = (move) => move.replayed_seconds > 0 ? audio(move.replayed_seconds) : "nothing";

/** took says how long a move took; a dash until the next backend has got all that the former one had. */
export const took = (move) => move.took_seconds > 0 ? duration(move.took_seconds) : "–";

/** canary says how a backend's canary is; empty if it has none. */
export function canary(b) {
  if (!b.canary || b.canary === "off") return "";
  const latency = b.canary_seconds > 0 ? ` · first result in ${duration(b.canary_seconds)}` : "";
  if (b.canary === "up") return `canary ok${latency}`;
  if (b.canary === "down") return `canary fails${b.canary_reason ? `: ${b.canary_reason}` : ""}${latency && `${latency} the last time`}`;
  if (b.canary === "doubtful") return `canary doubtful: ${b.canary_reason}`;
  return `canary not played yet${b.canary_reason ? `: ${b.canary_reason}` : ""}`;
}

/** outlive says in a few words what becomes of a service's sessions whose backend fails; empty for nothing. */
export function outlive(service) {
  const f = service.failover;
  return f?.mode === "replay" ? `failover replay${f.verdict === "full" ? "" : `, ${f.verdict}`}` : "";
}

/** showFailover shows the memory for replay, and how many sessions moved in the time that the points cover. */
export function showFailover(stats, points) {
  const line = byId("failover");
  const sum = (field) => points.reduce((n, point) => n + (point[field] ?? 0), 0);
  const [moved, stayed] = [sum("moved"), sum("not_moved")];
  const parts = [];
  if (stats.replay) {
    const { memory_bytes: used, limit_bytes: limit } = stats.replay;
    parts.push(`Replay memory: ${bytes(used)} of ${bytes(limit)} in use${used >= 0.01 * limit ? ` (${percent(used / limit)})` : ""}`);
  }
  if (moved + stayed > 0) parts.push(`in the last hour, ${plural(moved, "session")} moved to another backend${stayed > 0 ? `, ${count(stayed)} could not` : ""}`);
  line.hidden = parts.length === 0;
  text(line, parts.join(" · "));
}
