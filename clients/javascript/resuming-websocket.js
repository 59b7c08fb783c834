const DEFAULTS = { protocols: [], opening: [], isFinal: null, reconnect: 30_000, silence: 10_000, maxBuffer: 16_000_000 };

const copy = (data) => (ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : data).slice();
const size = (data) => (typeof data === "string" ? new TextEncoder().encode(data).length : (data.size ?? data.byteLength));
const total = (messages) => messages.reduce((sum, data) => sum + size(data), 0);

/**
 * ResumingWebSocket has the shape of a WebSocket. It returns to its session of wsbouncer when its connection is lost, and begins a new
 * session when that one is gone. docs/reconnect.md describes the protocol, and resuming-websocket.d.ts the options and events.
 */
export class ResumingWebSocket extends EventTarget {
  binaryType = "blob"; readyState = 0;
  #options; #socket; #timer; #token; #go; #closing; #opened;
  #former; // the token before, which a late request of this client may have brought back
  #takenOver; // the reason of the 4409 after which that is tried
  #live = false; // whether the proxy has said where the session continues on this connection
  #abandoned = []; // silent sockets, closed only after another one has the session: a close frame would end it
  #attempt = 0; // since the last progress
  #deadline = 0; // of the present outage, or 0
  // Of this session: the last messages sent; and how many messages were sent, acknowledged, answered for good, received.
  #kept = []; #sent = 0; #acknowledged; #answered = 0; #received;

  constructor(url, options) {
    super();
    this.url = String(url);
    this.#options = { WebSocket: globalThis.WebSocket, ...DEFAULTS, ...options };
    this.#begin();
    this.#connect();
  }

  get bufferedAmount() {
    return total(this.#after(this.#acknowledged));
  }

  send(data) {
    if (this.readyState > 1) return;
    if (this.bufferedAmount + size(data) > this.#options.maxBuffer) throw new Error("the buffer is full");
    this.#kept.push(copy(data));
    this.#sent++;
    this.#forget();
    if (!this.#live) return;
    this.#socket.send(data);
    if (this.#acknowledged === this.#sent - 1) this.#watch();
  }

  close(code = 1000, reason = "") {
    if (this.readyState > 1) return;
    this.readyState = 2;
    this.#closing = [code, reason];
    if (this.#live) this.#socket.close(code, reason);
  }

  /** Begins the record of a session, with what the one before has not answered. */
  #begin() {
    const replayed = this.#after(this.#answered);
    const unkept = Math.max(0, this.#sent - this.#answered) - replayed.length;
    this.#kept = [...this.#options.opening, ...replayed];
    this.#sent = this.#kept.length;
    this.#answered = this.#options.opening.length;
    [this.#acknowledged, this.#received, this.#token, this.#former] = [0, 0];
    if (this.#opened) this.#fire("restarted", { replayed: replayed.length, lost: unkept });
  }

  /** What was sent after that many messages, as far as it is kept. */
  #after(count) {
    return count < this.#sent ? this.#kept.slice(count - this.#sent) : [];
  }

  /** Forgets what is acknowledged and answered; and where there is no room, what is only acknowledged. */
  #forget(acknowledged = 0) {
    const { isFinal, maxBuffer } = this.#options;
    this.#acknowledged = Math.max(this.#acknowledged, Math.min(acknowledged, this.#sent));
    const done = Math.min(this.#acknowledged, isFinal ? this.#answered : Infinity) - this.#sent + this.#kept.length;
    if (done > 0) this.#kept.splice(0, done);
    while (this.#sent - this.#kept.length < this.#acknowledged && total(this.#kept) > maxBuffer) this.#kept.shift();
  }

  #connect() {
    const names = ["wsbouncer.v1", ...this.#options.protocols];
    if (this.#token) names.push(`wsbouncer-resume.${this.#token}`, `wsbouncer-received.${this.#received}`);
    const socket = (this.#socket = new this.#options.WebSocket(this.#go ?? this.url, names));
    this.#go = undefined;
    socket.onopen = () => (socket.binaryType = this.binaryType);
    socket.onmessage = ({ data }) => socket === this.#socket && this.#take(data);
    socket.onclose = (event) => socket === this.#socket && this.#closed(event);
    socket.onerror = () => setTimeout(socket.onclose, 0, { code: 1006, reason: "", wasClean: false }); // without a close event in Node 20
    this.#watch();
  }

  /** Gives the connection up if nothing comes for a while though something should: the first message, or an acknowledgement. */
  #watch() {
    clearTimeout(this.#timer);
    if (this.#live && this.#acknowledged === this.#sent) return;
    const time = this.#opened ? this.#options.silence : this.#options.reconnect;
    this.#timer = setTimeout(() => this.#closed({ code: 1006, reason: "silent", wasClean: false }), time);
  }

  #take(data) {
    const control = typeof data === "string" && data.startsWith('{"wsbouncer":{') && JSON.parse(data).wsbouncer;
    if (control && !this.#live) return control.go ? (this.#go = control.go) : this.#resume(control);
    this.#attempt = 0;
    if (control) this.#forget(control.received);
    else this.#deliver(data);
    this.#watch();
  }

  #resume({ resume, received = this.#token ? -1 : 0, sent = 0 }) {
    if (received < this.#acknowledged || received > this.#sent || sent !== this.#received)
      return this.#closed({ code: 4410, reason: "the proxy and the client count differently", wasClean: true });
    for (const socket of this.#abandoned.splice(0)) socket.close();
    [this.#former, this.#token, this.#takenOver] = [this.#token, resume];
    this.#deadline = 0;
    this.#forget(received);
    this.readyState ||= 1;
    this.#fire(this.#opened ? "resumed" : "open");
    this.#opened = this.#live = true;
    for (const data of this.#after(received)) this.#socket.send(data); // with what was sent by listeners of the event
    if (this.#closing) this.#socket.close(...this.#closing);
    this.#watch();
  }

  #deliver(data) {
    this.#received++;
    const final = this.#options.isFinal?.(data);
    if (final) this.#answered = Math.max(this.#answered, final === true ? this.#sent : this.#options.opening.length + final);
    this.#forget();
    this.#fire("message", { data });
  }

  #closed({ code, reason, wasClean }) {
    const late = this.#former && code === (this.#live ? 4409 : 4410);
    if (late) [this.#token, this.#former, this.#takenOver] = [this.#former, undefined, this.#live ? reason : this.#takenOver];
    const gone = late ? false : this.#live ? code === 1006 && !this.#token : code === 4410;
    const again = late || this.#opened && (this.#live ? [1006] : [1006, 1013, 4307, 4410]).includes(code);
    clearTimeout(this.#timer);
    this.#live = false;
    if (this.#socket.readyState === 0) this.#socket.close();
    this.#abandoned.push(this.#socket);
    this.#socket = undefined;
    if (gone && this.#takenOver !== undefined) return this.#end(4409, this.#takenOver, true);
    if (!again || (gone && (this.#closing || !this.#options.isFinal))) return this.#end(code, reason, wasClean);
    if (!this.#deadline) this.#fire("lost");
    if (gone) this.#begin();
    this.#deadline ||= Date.now() + this.#options.reconnect;
    const left = this.#deadline - Date.now();
    if (left <= 0) return this.#end(1006, `no connection in ${this.#options.reconnect / 1000} s`, false);
    this.#timer = setTimeout(() => this.#connect(), Math.min(left, Math.random() * Math.min(5000, 250 * 2 ** this.#attempt++)));
  }

  #end(code, reason, wasClean) {
    for (const socket of this.#abandoned) socket.close();
    this.readyState = 3;
    if (!wasClean) this.#fire("error");
    this.#fire("close", { code, reason, wasClean });
  }

  #fire(type, fields) {
    const event = Object.assign(new Event(type), fields);
    this.dispatchEvent(event);
    this[`on${type}`]?.(event);
  }
}
