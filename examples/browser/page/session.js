"use strict";

// The Vosk server compares its commands byte by byte.
const END = '{"eof" : 1}';
const CONFIG = JSON.stringify({ config: { sample_rate: SAMPLE_RATE } }); // which is not answered

/** How long the server may take for its last answer, in milliseconds, and for the connection to be established. */
const PATIENCE = 10000;

/** The class of connections that come back. The page has none if it was opened from the disk, since files may not load modules. */
async function resumingWebSocket() {
  return location.protocol === "file:" ? null : (await import("./resuming-websocket.js")).ResumingWebSocket;
}

/**
 * Session speaks the Vosk protocol with the proxy: a configuration, audio, the end; and for each message of audio, as for
 * the end, one answer. What happens is told to the listener, an object with
 *
 *   open()              the connection is established
 *   lost()              it was lost, and the session waits for the next one
 *   resumed()           there is a connection again
 *   restarted()         the session is gone, and another one gets the audio of the utterance under way
 *   partial(text)       the utterance under way, which may still change
 *   final(text)         utterances that have ended
 *   delay(milliseconds) between sending audio and its answer
 *   close(code, reason) nothing comes after it
 */
class Session {
  constructor(ResumingWebSocket, url, listener) {
    this.listener = listener;
    this.url = url;
    this.sent = []; // when the messages that were not answered yet were sent
    this.answers = 0; // of the server's session
    this.early = []; // audio from before the connection was established
    this.connect(ResumingWebSocket || WebSocket);
    this.expect("no connection");
  }

  connect(Socket) {
    this.resumes = Socket !== WebSocket;
    this.socket = new Socket(this.url, this.resumes ? { opening: [CONFIG], isFinal: (data) => this.covered(data) } : []);
    this.socket.onopen = () => this.opened();
    this.socket.onlost = () => this.listener.lost();
    this.socket.onresumed = () => this.listener.resumed();
    this.socket.onrestarted = ({ replayed }) => this.restarted(replayed);
    this.socket.onmessage = ({ data }) => this.answered(data);
    this.socket.onclose = ({ code, reason }) => this.closed(code, reason);
  }

  /** Sends audio, or keeps it until the connection is established. */
  audio(audio) {
    if (this.socket.readyState === WebSocket.CONNECTING) this.early.push(audio);
    if (this.socket.readyState === WebSocket.OPEN) this.send(audio);
  }

  /** Tells the server that there is no more audio. It answers, and the connection is closed. */
  finish() {
    this.finishing = true;
    if (this.socket.readyState === WebSocket.OPEN) {
      this.send(END);
      this.expect("no last answer");
    }
  }

  /** Bytes that wait to be sent, because the network or the server is slow. */
  get unsent() {
    return this.socket.bufferedAmount;
  }

  send(message) {
    this.sent.push(performance.now());
    this.socket.send(message);
  }

  opened() {
    clearTimeout(this.timer);
    this.connected = true;
    this.listener.open();
    if (!this.resumes) this.socket.send(CONFIG);
    for (const audio of this.early.splice(0)) this.send(audio);
    if (this.finishing) this.finish();
  }

  /** How many messages an answer settles: with the end of an utterance all that are answered, since each message has one answer. */
  covered(data) {
    return data.includes('"text"') && this.answers + 1;
  }

  restarted(replayed) {
    this.answers = 0;
    this.sent = Array(replayed).fill(performance.now());
    this.listener.restarted();
  }

  answered(data) {
    let answer;
    try {
      answer = JSON.parse(data);
    } catch {
      this.abandon("unreadable answer");
      return;
    }
    this.answers++;
    if (this.sent.length > 0) this.listener.delay(performance.now() - this.sent.shift());
    if (answer.text) this.listener.final(answer.text);
    else this.listener.partial(answer.partial || "");
  }

  closed(code, reason) {
    if (code === 1006 && this.resumes && !this.connected) {
      this.connect(WebSocket); // to a server or service that knows nothing of this
      return;
    }
    clearTimeout(this.timer);
    this.socket.onmessage = this.socket.onclose = this.socket.onopen = null;
    this.listener.close(code, reason);
  }

  /** Ends the session unless the timer is cleared in time. */
  expect(complaint) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.abandon(`${complaint} within ${PATIENCE / 1000} s`), PATIENCE);
  }

  abandon(reason) {
    this.resumes = false;
    this.socket.close();
    this.closed(1006, reason);
  }
}
