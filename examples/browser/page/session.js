"use strict";

// The Vosk server compares its commands byte by byte.
const END = '{"eof" : 1}';

/** How long the server may take for its last answer, in milliseconds, and for the connection to be established. */
const PATIENCE = 10000;

/**
 * Session speaks the Vosk protocol with the proxy: a configuration, audio, the end; and for each message of audio, as for
 * the end, one answer. What happens is told to the listener, an object with
 *
 *   open()              the connection is established
 *   partial(text)       the utterance under way, which may still change
 *   final(text)         utterances that have ended
 *   delay(milliseconds) between sending audio and its answer
 *   close(code, reason) nothing comes after it
 */
class Session {
  constructor(url, listener) {
    this.listener = listener;
    this.sent = []; // when the messages that were not answered yet were sent
    this.early = []; // audio from before the connection was established
    this.socket = new WebSocket(url);
    this.socket.onopen = () => this.opened();
    this.socket.onmessage = ({ data }) => this.answered(data);
    this.socket.onclose = ({ code, reason }) => this.closed(code, reason);
    this.expect("no connection");
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
    this.listener.open();
    this.socket.send(JSON.stringify({ config: { sample_rate: SAMPLE_RATE } })); // which is not answered
    for (const audio of this.early.splice(0)) this.send(audio);
    if (this.finishing) this.finish();
  }

  answered(data) {
    let answer;
    try {
      answer = JSON.parse(data);
    } catch {
      this.abandon("unreadable answer");
      return;
    }
    if (this.sent.length > 0) this.listener.delay(performance.now() - this.sent.shift());
    if (answer.text) this.listener.final(answer.text);
    else this.listener.partial(answer.partial || "");
  }

  closed(code, reason) {
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
    this.socket.close();
    this.closed(1006, reason);
  }
}
