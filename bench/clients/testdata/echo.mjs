// The conversation of a client with an echo server, in a page or in Node: node echo.mjs MODULE URL COUNT.

const message = (i) => `${i}:${"x".repeat((i * 7919) % 3000)}`;
const encode = (i) => (i % 2 ? message(i) : new TextEncoder().encode(message(i)));

/** Sends so many messages, of text and bytes, and expects each back once and in order. Returns how often the client has returned. */
export function converse(ResumingWebSocket, url, count) {
  return new Promise((resolve, reject) => {
    const socket = new ResumingWebSocket(url, { silence: 1000, reconnect: 60_000 });
    socket.binaryType = "arraybuffer";
    let [sent, received, returns] = [0, 0, 0];
    const send = () => {
      while (sent < count && sent < received + 8) socket.send(encode(sent++));
    };
    socket.onopen = send;
    socket.onresumed = () => returns++;
    socket.onmessage = ({ data }) => {
      const text = typeof data === "string" ? data : new TextDecoder().decode(data);
      if (text !== message(received) || (typeof data === "string") !== Boolean(received % 2)) {
        reject(new Error(`got ${text.slice(0, 20)}; want ${received}`));
      }
      if (++received === count) socket.close();
      else send();
    };
    socket.onclose = ({ code, reason }) => {
      if (code === 1000 && received === count) resolve(returns);
      else reject(new Error(`closed with ${code} ${reason} after ${received} of ${count} messages`));
    };
  });
}

if (globalThis.process) {
  const [module, url, count] = process.argv.slice(2);
  const { ResumingWebSocket } = await import(module);
  console.log(await converse(ResumingWebSocket, url, Number(count)));
}
