// Tests of the client against ../testing/standin.py. PYTHON is an interpreter with websockets; Node before 22 needs --experimental-websocket.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { ResumingWebSocket } from "./resuming-websocket.js";

const HISTORIES = Number(process.env.HISTORIES ?? 300);
const TIMEOUT = 300_000; // of a test; one that passes takes seconds

let standin, address;
before(async () => {
  const script = fileURLToPath(new URL("../testing/standin.py", import.meta.url));
  standin = spawn(process.env.PYTHON ?? "python3", ["-B", script], { stdio: ["pipe", "pipe", "inherit"] });
  for await (address of createInterface(standin.stdout)) return;
  throw new Error("the stand-in does not start");
});
after(() => standin.stdin.end());

let ids = 0;
function url(query) {
  return `ws://${address}/session?${new URLSearchParams({ id: ++ids, ...query })}`;
}
const plan = (...steps) => url({ plan: JSON.stringify(steps) });
const record = async (address) => (await fetch(address.replace(/^ws(.*)\/session/, "http$1/record"))).json();
const names = (got) => got.map(([, name]) => name);
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const text = (data) => (typeof data === "string" ? data : new TextDecoder().decode(data));
const numbers = (count) => Array.from({ length: count }, (_, i) => String(i));

/** A generator of numbers from 0 to 1 (mulberry32), so that a seed makes the same messages each time. */
function chance(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A client that notes its events: what it got, and how it was closed. */
class Client extends ResumingWebSocket {
  messages = [];
  events = [];
  ended = new Promise((resolve) => (this.onclose = resolve));
  constructor(url, options) {
    super(url, { opening: ["open"], reconnect: TIMEOUT, ...options });
    this.binaryType = "arraybuffer";
    for (const type of ["open", "lost", "resumed", "restarted"]) this.addEventListener(type, (event) => this.events.push(event));
    this.finished = new Promise((resolve) => {
      this.onmessage = ({ data }) => {
        this.messages.push(text(data));
        if (text(data).startsWith("bye")) resolve();
      };
    });
    this.ended.then((event) => (this.closed = event));
  }

  count(type) {
    return this.events.filter((event) => event.type === type).length;
  }

  /** Sends messages and the end, waits for the last answer, and closes. */
  async converse(messages) {
    for (const message of [...messages, "end"]) this.send(message);
    await Promise.race([this.finished, this.ended]);
    this.close();
    return this.ended;
  }
}

/** Random histories: every message arrives once, in order, both ways; and after restarts, each is answered by one final. */
async function history(seed) {
  const random = chance(seed);
  const choose = (...values) => values[Math.floor(values.length * random())];
  const chunks = Array.from({ length: 5 + Math.floor(56 * random()) }, (_, i) => {
    const chunk = `${i}:${"x".repeat(choose(0, 10, 1000, 20000))}`;
    return random() < 0.3 ? chunk : new TextEncoder().encode(chunk);
  });
  const address = url({ seed });
  const client = new Client(address, {
    silence: seed % 10 === 9 ? 2000 : TIMEOUT, // those have a silent connection
    reconnect: TIMEOUT,
    isFinal: (data) => typeof data === "string" && data.startsWith("{") && JSON.parse(data).answers,
  });
  for (const chunk of chunks) {
    client.send(chunk);
    if (typeof chunk !== "string") chunk.fill(0); // the client has a copy
    await pause(choose(0, 0, 1, 20));
  }
  const { code } = await client.converse([]);
  assert.ok(code === 1000 || code === 4410, `closed with ${code}`); // 4410 if the answer to its close frame was lost

  const finals = client.messages.filter((message) => message.startsWith("{")).flatMap((message) => JSON.parse(message).final);
  assert.deepEqual(finals, [...chunks.keys()], "finals");
  const downs = [[]];
  for (const message of client.messages.filter((message) => message.startsWith("down"))) {
    const number = Number(message.split(":")[1]);
    if (number === 0) downs.push([]);
    downs.at(-1).push(number);
  }
  for (const said of downs) assert.deepEqual(said, [...said.keys()], "what a session said");
  assert.equal(`bye:${downs.at(-1).length}`, client.messages.at(-1));

  const { connections, sessions } = await record(address);
  const restarts = client.events.filter((event) => event.type === "restarted");
  assert.deepEqual(restarts.filter((event) => event.lost), []);
  assert.ok(sessions.length >= restarts.length + 1); // more if the answer to a new one was lost
  const sizes = chunks.map((chunk, i) => [typeof chunk === "string" ? "text" : "bytes", String(i), chunk.length]);
  for (const got of sessions.filter((got) => got.length)) {
    assert.deepEqual(got[0], ["text", "open", 4]);
    const body = got.slice(1).filter(([, name]) => name !== "end");
    if (body.length) assert.deepEqual(body, sizes.slice(Number(body[0][1])).slice(0, body.length), "what a session got");
  }
  assert.equal(sessions.at(-1).at(-1)[1], "end");
  if (!restarts.length) assert.equal(sessions[0].length, 1 + chunks.length + 1);
  return [connections - sessions.length, restarts.length];
}

test("random histories", { timeout: TIMEOUT }, async () => {
  const seeds = [...Array(HISTORIES).keys()];
  let returns = 0;
  let restarts = 0;
  await Promise.all(
    Array.from({ length: 30 }, async () => {
      while (seeds.length) {
        const seed = seeds.shift();
        const counts = await history(seed).catch((error) => {
          error.message = `seed ${seed}: ${error.message}`;
          throw error;
        });
        returns += counts[0];
        restarts += counts[1];
      }
    }),
  );
  console.log(`${HISTORIES} histories, ${returns} returns, ${restarts} restarts`);
  assert.ok(returns > HISTORIES / 2);
  assert.ok(restarts > HISTORIES / 20);
});

for (const [name, steps] of Object.entries({
  "comes back": [{ in: 9 }],
  "comes back twice": [{ in: 9 }, { out: 100 }],
  "goes where it is sent": [{ in: 9 }, { go: true }],
  "comes again": [{ in: 9 }, { status: 503 }, { status: 503 }],
  "gives a silent connection up": [{ in: 9, how: "silence" }],
  "gives a silent handshake up": [{ in: 9 }, { out: 100, how: "silence" }],
})) {
  test(name, { timeout: TIMEOUT }, async () => {
    const address = plan(...steps);
    const client = new Client(address, { silence: 1000 });
    const { code } = await client.converse(numbers(5));
    assert.equal(code, 1000);
    const { connections, sessions } = await record(address);
    assert.deepEqual(sessions.map(names), [["open", ...numbers(5), "end"]]);
    assert.equal(connections, steps.length + 1);
    assert.equal(client.count("resumed"), 1);
    assert.equal(client.count("lost"), 1);
  });
}

test("survives a late request of its own", { timeout: TIMEOUT }, async () => {
  for (const late of [true, "lost"]) {
    const address = plan({ in: 9 }, { late });
    const client = new Client(address, { isFinal: () => false });
    assert.equal((await client.converse(numbers(5))).code, 1000);
    const { connections, sessions } = await record(address);
    assert.deepEqual(sessions.map(names), [["open", ...numbers(5), "end"]]);
    assert.equal(connections, late === "lost" ? 4 : 3);
  }
});

test("is told why it cannot return", { timeout: TIMEOUT }, async () => {
  for (const [code, steps] of [
    [4409, [{ close: 4409 }]],
    [4409, [{ in: 9 }, { close: 4409 }]],
    [4400, [{ in: 9 }, { status: 400 }]],
    [4410, [{ in: 9 }, { forget: true }]],
    [1013, [{ status: 503 }]],
    [1006, [{ out: 10 }]],
  ]) {
    const client = new Client(plan(...steps));
    assert.equal((await client.converse(numbers(5))).code, code);
    assert.equal(client.readyState, 3);
  }
});

test("gives up", { timeout: TIMEOUT }, async () => {
  const client = new Client(plan({ in: 9 }, { status: 503, forever: true }), { reconnect: 500 });
  const { code, reason, wasClean } = await client.converse(numbers(5));
  assert.deepEqual([code, reason, wasClean], [1006, "no connection in 0.5 s", false]);
});

test("sends again what came after a final that answers all", { timeout: TIMEOUT }, async () => {
  const address = plan({ in: 2000 }, { forget: true });
  const client = new Client(address, { isFinal: (data) => text(data).startsWith("{") });
  let i = 0;
  while (!client.messages.some((message) => message.startsWith("{"))) {
    client.send(`${i++}:`);
    await pause(10);
  }
  client.send(`${i}:${"x".repeat(4000)}`); // which cuts the connection
  await client.converse([]);
  const { sessions } = await record(address);
  assert.equal(sessions.length, 2);
  const got = names(sessions[1]);
  assert.equal(got[0], "open");
  assert.ok(Number(got[1]) >= 1 && Number(got[1]) <= i, got.join());
});

test("does not believe wrong counts", { timeout: TIMEOUT }, async () => {
  for (const received of [1000, 0]) {
    const address = plan({ in: 300 }, { received });
    const client = new Client(address, { isFinal: () => false });
    client.send("0:");
    while (client.readyState === 0 || client.bufferedAmount > 0) await pause(10);
    client.send(`1:${"x".repeat(1000)}`); // which cuts the connection
    await client.converse([]);
    const { sessions } = await record(address);
    assert.deepEqual(sessions.map(names), [["open", "0"], ["open", "0", "1", "end"]]);
    const { replayed, lost } = client.events.find((event) => event.type === "restarted");
    assert.deepEqual([replayed, lost], [3, 0]);
  }
});

test("keeps no more than its buffer holds", { timeout: TIMEOUT }, async () => {
  const address = plan({ in: 2000, how: "silence" });
  const client = new Client(address, { maxBuffer: 10_000, silence: 500 });
  let refused = 0;
  for (let i = 0; i < 50; ) {
    try {
      client.send(`${i}:${"x".repeat(1000)}`);
      i++;
    } catch (error) {
      assert.match(error.message, /full/);
      refused++;
      await pause(10);
    }
    assert.ok(client.bufferedAmount <= 10_000);
  }
  await client.converse([]);
  assert.ok(refused > 0);
  assert.deepEqual((await record(address)).sessions.map(names), [["open", ...numbers(50), "end"]]);
});

test("reports what it had no room to keep", { timeout: TIMEOUT }, async () => {
  const address = plan({ in: 30_000 }, { forget: true });
  const client = new Client(address, { maxBuffer: 10_000, isFinal: () => false });
  for (let i = 0; i < 50; i++) {
    while (client.bufferedAmount > 5000) await pause(10);
    client.send(`${i}:${"x".repeat(1000)}`);
  }
  await client.converse([]);
  const { replayed, lost } = client.events.find((event) => event.type === "restarted");
  assert.ok(lost > 0 && replayed <= 10);
});

test("delivers before it closes", { timeout: TIMEOUT }, async () => {
  const address = plan({ in: 5000 });
  const client = new Client(address);
  for (let i = 0; i < 20; i++) client.send(`${i}:${"x".repeat(1000)}`);
  client.close(1000, "that is all");
  assert.equal((await client.ended).code, 1000);
  const { connections, sessions } = await record(address);
  assert.deepEqual(sessions.map(names), [["open", ...numbers(20)]]);
  assert.equal(connections, 2);
});
