// Numbers and times as texts. Durations are in seconds, as in the API.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export const count = (n) => whole.format(n ?? 0);

/** plural returns "1 client" or "3 clients". */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** rate returns a number per second with as many digits as it deserves. */
export function rate(n) {
  if (!n) return "0";
  return n < 9.95 ? n.toFixed(1) : count(n);
}

export function bytes(n) {
  if (!n) return "0 B";
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024) return `${unit === "B" || n >= 100 ? Math.round(n) : n.toFixed(1)} ${unit}`;
    n /= 1024;
  }
  return `${n.toFixed(1)} TiB`;
}

/** duration returns a time span: 0.42 ms, 340 ms, 4.2 s, 17 s, 4 min 12 s, 3 h 04 min, 2 d 3 h. From 10 s on, it is cut off as the commands do. */
export function duration(seconds) {
  if (!(seconds > 0)) return "0 s";
  if (seconds < 0.01) return `${(seconds * 1000).toPrecision(2)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  const two = (n) => String(n).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s % 3600 / 60))} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
}

/** orNone returns a duration, or a dash for none. */
export const orNone = (seconds) => seconds > 0 ? duration(seconds) : "–";

/** firstReply returns how long a session's first reply took; with > if it is still owed. */
export const firstReply = (s) => s.first_reply_owed ? `>${duration(s.first_reply_seconds)}` : orNone(s.first_reply_seconds);

export const percent = (part) => `${Math.round(part * 100)} %`;

/** known reports whether a time of the API is one: Go's zero time means none. */
export const known = (time) => Boolean(time) && !time.startsWith("0001-");

export const ago = (time) => known(time) ? `${duration(Math.max(0, (Date.now() - Date.parse(time)) / 1000))}` : "";

/** moment returns the time of day, and the day if it is not today. */
export function moment(time) {
  if (!known(time)) return "–";
  const at = new Date(time);
  const today = day.format(at) === day.format(new Date());
  return today ? clock.format(at) : `${day.format(at)} ${clock.format(at)}`;
}
