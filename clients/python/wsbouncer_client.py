"""A WebSocket client that returns to its session of wsbouncer when its connection is lost; docs/reconnect.md describes the protocol."""

import asyncio
import contextlib
import random

from websockets.asyncio import client
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK, InvalidHandshake, InvalidStatus


def total(messages):
    return sum(len(message.encode() if isinstance(message, str) else message) for message in messages)


class connect:
    """Connects to a service: `async with connect(url) as ws`. A first connection that fails raises what websockets raises.

    opening: messages that a session begins with, such as a configuration. They are sent first, also in a session that replaces a lost one.
    is_final(message): whether a message of the server answers for good what was sent: True for all that was sent so far, or how many of the
        session's messages (without the opening) it answers. What is not answered is kept, and sent to the session that replaces a lost
        one. Without this, a session that is lost ends the client. It is called as messages arrive, which may be before they are read.
    on_restarted(replayed, lost): the session is gone, and a new one begins with so many messages sent again. So many had no room to be kept.
        It is called when is_final would be.
    reconnect: how long to try to return, in seconds: the service's `reconnect`.
    silence: how long the proxy may leave a ping unanswered, in seconds.
    max_buffer: the most bytes to keep of what is sent and not acknowledged, or received and not read. Sending waits while it is full, and
        nothing more is received: read while you send.
    Other options are those of websockets' connect.
    """

    def __init__(self, url, *, opening=(), is_final=None, on_restarted=lambda *_: None, reconnect=30, silence=10, max_buffer=16_000_000, **options):
        self._url, self._headers = url, dict(options.pop("additional_headers", None) or {})
        self._options = {"open_timeout": silence, "ping_interval": None} | options
        self._opening, self._is_final, self._on_restarted = list(opening), is_final, on_restarted
        self._reconnect, self._silence, self._max_buffer = reconnect, silence, max_buffer
        self._inbox, self._closing, self._end, self._attempt, self._changed = [], False, None, 0, asyncio.Event()
        self._kept, self._sent, self._answered = [], 0, 0
        self._begin()

    async def __aenter__(self):
        self._task = asyncio.create_task(self._run(await self._dial()))
        return self

    async def __aexit__(self, *_):
        await self.close()

    async def __aiter__(self):
        with contextlib.suppress(ConnectionClosedOK):
            while True:
                yield await self.recv()

    async def recv(self):
        """Returns the next message. Raises what ended the session, such as ConnectionClosed with its code."""
        await self._until(lambda: self._inbox or self._end)
        if not self._inbox:
            raise self._end
        self._change()
        return self._inbox.pop(0)

    async def send(self, message):
        """Sends a message, or keeps it until there is a connection. Waits while the buffer is full."""
        message = message if isinstance(message, str) else bytes(message)
        await self._until(lambda: self._closing or self._end or self._acknowledged == self._sent or
                          total([*self._after(self._acknowledged), message]) <= self._max_buffer)
        if self._closing or self._end:
            raise self._end or ConnectionClosedOK(None, None)
        self._kept.append(message)
        self._sent += 1
        self._forget()

    async def close(self):
        """Ends the session once the proxy has got what was sent, which may mean to return first."""
        self._closing = True
        self._change()
        await self._task

    def _change(self):
        self._changed.set()
        self._changed = asyncio.Event()

    async def _until(self, ready):
        while not ready():
            await self._changed.wait()

    def _begin(self):
        """Begins the record of a session, with what the one before has not answered: the last messages sent, and counts of messages. Returns
        how many messages are sent again, and how many were not kept."""
        kept, unanswered = self._after(self._answered), max(0, self._sent - self._answered)
        self._kept = [*self._opening, *kept]
        self._sent, self._answered = len(self._kept), len(self._opening)
        self._written, self._acknowledged, self._received, self._token = 0, 0, 0, None
        self._former = None  # the token before, which a late request of this client may have brought back
        return len(kept), unanswered - len(kept)

    def _after(self, count):
        """What was sent after that many messages, as far as it is kept."""
        return self._kept[count - self._sent:] if count < self._sent else []

    def _forget(self, acknowledged=0):
        """Forgets what is acknowledged and answered; and where there is no room, what is only acknowledged."""
        self._acknowledged = max(self._acknowledged, acknowledged)
        done = min(self._acknowledged, self._answered if self._is_final else self._sent)
        del self._kept[:max(0, done - self._sent + len(self._kept))]
        while self._sent - len(self._kept) < self._acknowledged and total(self._kept) > self._max_buffer:
            del self._kept[0]
        self._change()

    async def _dial(self):
        resume = {"Wsbouncer-Resume": self._token, "Wsbouncer-Received": str(self._received)} if self._token else {}
        ws = await client.connect(self._url, additional_headers=self._headers | resume, **self._options)
        answer = ws.response.headers
        received = int(answer.get("Wsbouncer-Received", -1 if self._token else 0))
        if not self._acknowledged <= received <= self._sent or int(answer.get("Wsbouncer-Sent", 0)) != self._received:
            await ws.close()
            raise ValueError("the proxy and the client count differently")
        self._former, self._token, self._written = self._token, answer.get("Wsbouncer-Resume"), received
        self._forget(received)
        return ws

    async def _return(self, lost):
        """Dials until it succeeds, after pauses that grow and are random, so that clients that were lost together do not return together.
        Lost is how the former connection ended."""
        gone = None if self._token else lost
        async with asyncio.timeout(self._reconnect):
            while True:
                if gone:
                    if self._closing or not self._is_final:
                        raise gone
                    self._on_restarted(*self._begin())
                await asyncio.sleep(random.uniform(0, 0.25 * 2 ** min(self._attempt, 5)))
                self._attempt += 1
                try:
                    return await self._dial()
                except (OSError, ValueError, InvalidHandshake) as failure:
                    status = failure.response.status_code if isinstance(failure, InvalidStatus) else 500
                    if status == 410 and self._former:
                        self._token, self._former = self._former, None
                        continue
                    if status == 410 and lost.rcvd:
                        raise lost
                    gone = failure if isinstance(failure, ValueError) or status == 410 else None
                    if status < 500 and not gone:
                        raise

    async def _run(self, ws):
        try:
            while True:
                helpers = asyncio.gather(self._write(ws), self._ping(ws), return_exceptions=True)
                try:
                    while True:
                        await self._take(await ws.recv())
                except ConnectionClosed as closed:
                    if self._former and closed.rcvd and closed.rcvd.code == 4409:
                        self._token, self._former = self._former, None
                    elif closed.rcvd or closed.sent and not self._closing:
                        raise
                    lost = closed
                finally:
                    helpers.cancel()
                    await asyncio.gather(helpers, return_exceptions=True)
                ws = await self._return(lost)
        except Exception as end:
            self._end = end
            self._change()
            await ws.close()

    async def _take(self, message):
        self._received, self._attempt = self._received + 1, 0
        final = self._is_final and self._is_final(message)
        self._answered = max(self._answered, self._sent if final is True else len(self._opening) + (final or 0))
        await self._until(lambda: total(self._inbox) < self._max_buffer or self._closing)
        self._inbox.append(message)
        self._forget()

    async def _write(self, ws):
        while True:
            await self._until(lambda: self._written < self._sent or self._closing)
            if self._written == self._sent:
                return await ws.close()
            await ws.send(self._kept[self._written - self._sent])
            self._written += 1

    async def _ping(self, ws):
        """Learns what is acknowledged, and gives up a connection that is silent, unless nothing is read since the inbox is full."""
        while True:
            written = self._written
            try:
                async with asyncio.timeout(self._silence):
                    await (await ws.ping())
                self._forget(written)
            except TimeoutError:
                if total(self._inbox) < self._max_buffer:
                    ws.transport.abort()
            await asyncio.sleep(self._silence / (10 if self._acknowledged < self._sent else 2))
