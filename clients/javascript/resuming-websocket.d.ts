export interface ResumingWebSocketOptions {
  /** Subprotocols of the server's, beside the proxy's own. */
  protocols?: string[];
  /** What a session begins with, such as a configuration. It is sent first, also in a session that replaces a lost one. */
  opening?: (string | ArrayBuffer | ArrayBufferView | Blob)[];
  /**
   * Whether a message of the server answers for good what was sent: true for all that was sent so far, or how many of the session's
   * messages (without the opening) it answers. What is not answered is kept, and sent to the session that replaces a lost one. Without
   * this, a client whose session is lost is closed with 4410.
   */
  isFinal?: (data: any) => boolean | number | null | undefined;
  /** How long to try to return, in milliseconds (30,000): the service's `reconnect`. */
  reconnect?: number;
  /** How long a connection may say nothing while an answer of the proxy is due, in milliseconds (10,000). */
  silence?: number;
  /** The most bytes to keep (16,000,000). */
  maxBuffer?: number;
  /** The class of the connections (the global WebSocket). */
  WebSocket?: any;
}

/** Of the event "restarted": how many messages are sent again, after the opening, and how many more had no room to be kept. */
export interface RestartedEvent extends Event {
  replayed: number;
  lost: number;
}

/**
 * Events, each with a property such as `onmessage` too: "open", "message" (data) and "close" (code, reason, wasClean) as of a WebSocket;
 * "lost": there is no connection, the client tries to return; "restarted": its session is gone, and a new one replaces it; "resumed": there
 * is a connection again. Close codes: 4409 another client has taken the session over, 4410 the session is gone, 1006 the client has given up.
 */
export class ResumingWebSocket extends EventTarget {
  /** Connects. A first connection that fails closes it with 1006. */
  constructor(url: string | URL, options?: ResumingWebSocketOptions);
  readonly url: string;
  readonly readyState: number;
  binaryType: "blob" | "arraybuffer";
  /** Bytes that the proxy has not acknowledged. */
  readonly bufferedAmount: number;
  /** Sends a message, or keeps it until there is a connection. Throws if bufferedAmount would exceed maxBuffer. */
  send(data: string | ArrayBuffer | ArrayBufferView | Blob): void;
  /** Ends the session once the proxy has got what was sent, which may mean to return first. */
  close(code?: number, reason?: string): void;
  onopen: ((event: Event) => void) | null;
  onmessage: ((event: MessageEvent) => void) | null;
  onclose: ((event: CloseEvent) => void) | null;
  onerror: ((event: Event) => void) | null;
  onlost: ((event: Event) => void) | null;
  onresumed: ((event: Event) => void) | null;
  onrestarted: ((event: RestartedEvent) => void) | null;
}
