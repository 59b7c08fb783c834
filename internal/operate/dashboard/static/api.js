// The admin API, as docs/reference/admin-api.md describes it: requests, the stream of events, the token.

const tokenKey = "wsbouncer.token";
const untilKey = "wsbouncer.until";
const lifetime = 12 * 3600 * 1000; // how long this tab keeps a token, in milliseconds
const requestTimeout = 15000; // in milliseconds
const silence = 15000; // the stream has an event every 2 s; after this time without one, the proxy is taken to be gone

/** Failure is an error answer of the proxy, or status 0 if there was no answer. */
export class Failure extends Error {
  constructor(status, kind, message, body = null) {
    super(message);
    this.status = status;
    this.kind = kind;
    this.nearest = body?.error?.nearest ?? "";
  }
}

/*
 * The token stays in this tab, and goes out in the header Authorization only. A cookie would go to every other program that listens on
 * another port of the same host (RFC 6265, section 8.5), and browsers would send it for pages of other sites; session storage belongs to
 * this origin, with its port, and to this tab.
 */
let token = null;
let until = 0; // when the token is forgotten, in milliseconds since 1970
try {
  token = sessionStorage.getItem(tokenKey);
  until = Number(sessionStorage.getItem(untilKey));
} catch { /* no storage: it is asked for again after a reload */ }

export const hasToken = () => token !== null;

/** expired forgets a token that this tab has kept for long enough, and reports whether there was one. */
export function expired() {
  if (token === null || Date.now() < until) return false;
  setToken(null);
  return true;
}

/** setToken keeps the token for a working day at most, as long as the tab lives; null forgets it. */
export function setToken(value) {
  token = value;
  until = value === null ? 0 : Date.now() + lifetime;
  try {
    if (value === null) for (const key of [tokenKey, untilKey]) sessionStorage.removeItem(key);
    else for (const [key, text] of [[tokenKey, value], [untilKey, String(until)]]) sessionStorage.setItem(key, text);
  } catch { /* no storage */ }
}

/** logIn tries a token, keeps it if the proxy accepts it, and returns whom the proxy takes the page for. */
export async function logIn(value) {
  const response = await send(address("access"), { headers: { ...headers(false), Authorization: `Bearer ${value}` }, signal: AbortSignal.timeout(requestTimeout) });
  if (!response.ok) throw await failure(response);
  setToken(value);
  return response.json();
}

/** address returns the address of a path below /api/v1/, also where another server passes on the page at a longer path. */
function address(path, query) {
  const url = new URL(`api/v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query ?? {})) if (value !== "" && value !== null && value !== undefined) url.searchParams.set(name, value);
  return url;
}

function headers(changes) {
  const all = { Accept: "application/json" };
  if (token !== null) all.Authorization = `Bearer ${token}`;
  if (changes) all["X-Wsbouncer-Change"] = "dashboard"; // another site's page cannot send it without asking first
  return all;
}

async function send(url, options) {
  try {
    return await fetch(url, { cache: "no-store", credentials: "same-origin", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, "unreachable", error.name === "TimeoutError" ? "the proxy did not answer in time" : "the proxy cannot be reached");
  }
}

async function failure(response) {
  const body = await response.text().catch(() => "");
  try {
    const parsed = JSON.parse(body);
    return new Failure(response.status, parsed.error.kind, parsed.error.text, parsed);
  } catch {
    return new Failure(response.status, "", body.trim().slice(0, 300) || `${response.status} ${response.statusText}`);
  }
}

let all = false; // whether requests are about all proxies of the fleet, where the API can answer so (FleetWide in internal/operate/api)
export const setWhole = (value) => { all = value; };
const fleetWide = /^(stats|problems|sessions|sessions\/[^/]+(\/move)?|services\/[^/]+\/(pause|resume)|backends\/[^/]+\/(recycle|move))$/;
const inFleet = (path, query) => all && fleetWide.test(path) ? { ...query, fleet: true } : query;

/** get reads a path below /api/v1/; with here, of this proxy only. */
export async function get(path, query, here = false) {
  const response = await send(address(path, here ? query : inFleet(path, query)), { headers: headers(false), signal: AbortSignal.timeout(requestTimeout) });
  if (!response.ok) throw await failure(response);
  try {
    return await response.json();
  } catch {
    throw new Failure(0, "unreachable", "the proxy's answer broke off");
  }
}

/** change makes a request that changes something. */
export async function change(method, path, body, query) {
  const response = await send(address(path, inFleet(path, query)), {
    method, signal: AbortSignal.timeout(4 * requestTimeout),
    headers: { ...headers(true), "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}),
  });
  if (!response.ok) throw await failure(response);
  const answer = await response.text();
  return answer ? JSON.parse(answer) : {};
}

/**
 * events reads the stream of events until it ends, and throws the Failure with which it ended. EventSource cannot send a token, so
 * this reads the stream itself (WHATWG HTML, section 9.2: lines, a field and its value, an empty line after each event).
 */
export async function events(query, signal, handle) {
  const aborted = new AbortController();
  let timer = 0;
  let silent = false;
  const watch = () => {
    clearTimeout(timer);
    timer = setTimeout(() => { silent = true; aborted.abort(); }, silence);
  };
  signal.addEventListener("abort", () => aborted.abort(), { once: true });
  watch();
  try {
    const response = await send(address("events", query), { headers: { ...headers(false), Accept: "text/event-stream" }, signal: aborted.signal });
    if (!response.ok) throw await failure(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let name = "";
    let data = [];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Failure(0, "ended", "the proxy ended the stream of events");
      watch();
      const lines = (rest + value).split(/\r\n|\n/);
      rest = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) handle(name, JSON.parse(data.join("\n")));
          name = "";
          data = [];
        } else if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
    }
  } catch (error) {
    if (error instanceof Failure) throw error;
    if (silent) throw new Failure(0, "silent", `the proxy has sent nothing for ${silence / 1000} s`);
    if (signal.aborted) throw new Failure(0, "aborted", "");
    throw new Failure(0, "unreachable", "the proxy cannot be reached");
  } finally {
    clearTimeout(timer);
    aborted.abort();
  }
}
