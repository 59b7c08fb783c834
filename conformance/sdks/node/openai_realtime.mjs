// openai for browsers, realtime: its key is a subprotocol, since a browser's WebSocket has no headers. It uses no other than wss://.

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

import OpenAI from "openai";
import { OpenAIRealtimeWebSocket } from "openai/realtime/websocket";
import { VERSION } from "openai/version";

const CHUNK_BYTES = 3200; // 100 ms of 16 kHz
const PACE_MS = 10;
const HEADER_BYTES = 44; // of the WAV file
const ROLES = {
  "session.created": "start",
  "conversation.item.input_audio_transcription.delta": "partial",
  "conversation.item.input_audio_transcription.completed": "final",
};

const text = { type: "string" };
const { values: options } = parseArgs({ options: { url: text, key: text, word: text, audio: text } });
const report = { sdk: `openai ${VERSION} (npm)`, events: [], invalid: [], error: null };
const client = new OpenAI({ apiKey: options.key, baseURL: options.url.replace(/^ws/, "http") + "/v1", dangerouslyAllowBrowser: true });
const realtime = new OpenAIRealtimeWebSocket({ model: "gpt-realtime" }, client);

const heard = []; // of those that wait for a type of event
function until(type) {
  return new Promise((resolve) => heard.push({ type, resolve }));
}

realtime.on("event", (event) => {
  const role = ROLES[event.type] ?? "other";
  report.events.push({ role, type: event.type, text: event.delta ?? event.transcript ?? null, event });
  if (heard[0]?.type === event.type) {
    heard.shift().resolve();
  }
});

// A browser is told nothing of a refused handshake but that there was one; an error event comes here as well.
realtime.on("error", (error) => {
  report.error ??= { class: error.constructor.name, text: error.message.split("\n")[0] };
});

const closed = new Promise((resolve) => {
  realtime.socket.addEventListener("error", resolve); // behind a handshake that failed, some versions of Node send no close event
  realtime.socket.addEventListener("close", (event) => {
    if (report.error) {
      Object.assign(report.error, { code: event.code, reason: event.reason });
    } else if (event.code === 1000) {
      report.events.push({ role: "end", type: "close", text: null, event: { code: event.code, protocol: realtime.socket.protocol } });
    } else {
      report.error = { class: "close", text: "", code: event.code, reason: event.reason };
    }
    resolve();
  });
});

async function speak() {
  await until("session.created");
  const transcription = { model: "gpt-4o-transcribe", prompt: options.word };
  realtime.send({ type: "session.update", session: { type: "realtime", audio: { input: { transcription } } } });
  await until("session.updated");
  const sound = readFileSync(options.audio).subarray(HEADER_BYTES);
  const chunks = Math.floor(sound.length / CHUNK_BYTES);
  for (let i = 0; i < chunks; i++) {
    const audio = sound.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES).toString("base64");
    realtime.send({ type: "input_audio_buffer.append", audio });
    await new Promise((resolve) => setTimeout(resolve, PACE_MS));
    if (i + 1 === Math.floor(chunks / 2) || i + 1 === chunks) {
      realtime.send({ type: "input_audio_buffer.commit" });
      await until("conversation.item.input_audio_transcription.completed");
    }
  }
  realtime.close();
}

await Promise.race([speak(), closed]);
await closed;
process.stdout.write(JSON.stringify(report));
