"use strict";

const $ = (id) => document.getElementById(id);

// What the page says of close codes beside the reason that came with them.
const CLOSE_CODES = {
  1000: "the session ended normally",
  1001: "the server is going away",
  1006: "there was no connection, or it was lost; browsers do not tell pages more",
  1008: "a limit was reached",
  1009: "a message was too large",
  1011: "the server failed",
  1012: "the server restarts",
  1013: "the server is full",
};

/** What the page is doing: idle, microphone, connecting, listening or finishing. Style follows it. */
function setState(state, text) {
  document.body.dataset.state = state;
  $("state").textContent = text;
  const active = state === "connecting" || state === "listening";
  $("toggle").disabled = state === "microphone" || state === "finishing";
  $("toggle").setAttribute("aria-pressed", String(active));
  $("action").textContent = active ? "Stop" : "Start";
  $("proxy").disabled = state !== "idle";
}

/** The card of one session: its transcript, and in the end its close code. */
class Card {
  constructor() {
    const card = $("session").content.cloneNode(true).firstElementChild;
    this.part = (name) => card.querySelector(`.${name}`);
    this.part("time").textContent = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
    $("hint").hidden = true;
    $("sessions").prepend(card);
  }

  partial(text) {
    this.part("partial").textContent = text;
  }

  final(text) {
    this.line("final", text);
    this.partial("");
  }

  close(code, reason) {
    const unfinished = this.part("partial").textContent;
    this.partial("");
    if (unfinished) this.line("unfinished", unfinished);
    else if (!this.part("final")) this.line("nothing", "nothing was heard");
    this.end(code, code === 1000 ? "good" : "bad", reason || CLOSE_CODES[code] || "");
  }

  fail(message) {
    this.part("transcript").hidden = true;
    this.end("error", "bad", message);
  }

  line(name, text) {
    const line = document.createElement("p");
    line.className = name;
    line.textContent = text;
    this.part("transcript").insertBefore(line, this.part("partial"));
  }

  end(code, kind, reason) {
    this.part("code").dataset.kind = kind;
    this.part("code").textContent = code;
    this.part("reason").textContent = reason;
  }
}

/** Pulls the plug between the page and the proxy, or puts it in. It is there if the page was served, and the proxy is behind it. */
async function setPlug(plugged) {
  await fetch(`plug?in=${plugged}`, { method: "POST" });
  $("plug").dataset.in = plugged;
  $("plug").textContent = plugged ? "Pull the plug" : "Put the plug in";
}

/** The loudness from 0 to 1 on the meter, whose scale is in decibels: -60 to 0. */
function showLevel(level) {
  const decibels = 20 * Math.log10(Math.max(level, 1e-6));
  $("meter").style.setProperty("--level", Math.max(0, Math.min(1, 1 + decibels / 60)).toFixed(3));
}

const seconds = (bytes) => `${(bytes / 2 / SAMPLE_RATE).toFixed(1)} s`;

let stop = null; // ends the session under way

async function start() {
  const card = new Card();
  let microphone = null;
  let session = null;
  let recorded = 0; // bytes
  let answers = 0;
  setState("microphone", "waiting for the microphone");
  $("audio").textContent = seconds(0);
  $("answers").textContent = "0";
  $("delay").textContent = $("unsent").textContent = "–";

  const ended = () => {
    if (microphone) microphone.close();
    stop = null;
    showLevel(0);
    $("lost").hidden = true;
    setState("idle", "not connected");
  };
  try {
    microphone = await Microphone.open((audio, level) => {
      if (!session) return;
      recorded += audio.byteLength;
      $("audio").textContent = seconds(recorded);
      $("unsent").textContent = seconds(session.unsent);
      session.audio(audio);
      showLevel(level);
    }, () => stop && stop());
    session = new Session(await resumingWebSocket(), $("proxy").value, {
      open: () => document.body.dataset.state === "connecting" && setState("listening", "connected, listening"),
      partial: (text) => card.partial(text),
      final: (text) => card.final(text),
      delay: (milliseconds) => {
        $("answers").textContent = String(++answers);
        $("delay").textContent = `${milliseconds.toFixed(0)} ms`;
      },
      lost: () => ($("lost").hidden = false),
      resumed: () => ($("lost").hidden = true),
      restarted: () => card.partial(""),
      close: (code, reason) => {
        card.close(code, reason);
        ended();
      },
    });
  } catch (error) {
    card.fail(error.message || error.name);
    ended();
    return;
  }
  setState("connecting", "connecting");
  stop = async () => {
    stop = null;
    setState("finishing", "waiting for the last words");
    await microphone.finish();
    showLevel(0);
    session.finish();
  };
}

$("proxy").value = new URLSearchParams(location.search).get("proxy") || "ws://127.0.0.1:8080/";
$("plug").onclick = () => setPlug($("plug").dataset.in !== "true");
if ($("proxy").value.startsWith(`ws://${location.host}/`)) setPlug(true).then(() => ($("plug").hidden = false));
$("toggle").onclick = () => (stop ? stop() : start());
setState("idle", "not connected");
