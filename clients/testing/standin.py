#!/usr/bin/env python3
"""A stand-in for wsbouncer and a recogniser behind it: what docs/reconnect.md says, with planted faults. It is for tests of clients.

ws://HOST:PORT/session?id=ID&plan=JSON is a history of sessions. Its plan has an object for each of its connections in turn:

    in: cut the connection after so many bytes that come after the request, or so many before its end if negative
    out: cut it after so many bytes of the answer and what follows
    how: cut it with a reset (the default), an end (without a close frame), or by silence
    forget: the session is gone when this connection comes (410)
    status: refuse it with 503 or 400; go: send it to another URL, once; early: the next token is never good
    close: end the session with this close code at its third message
    late: a former request with the token that it brings arrives only now, and takes the session over; "lost" if it cuts the connection, too
    received: claim to have got so many messages
    forever: do this with all later connections, too

seed=N instead of a plan makes one. GET /record?id=ID returns what the sessions got.

The recogniser gets "open..." first, then messages "I:..." of text or bytes, with I = 0, 1, 2...; and "end" last. It says "down:J:...",
with J = 0, 1, 2... in each session; {"final": [I, ...], "answers": N} of the messages since the last final, where N counts the session's
messages without the opening; and at the end "bye:J", with how many of the first it has sent.
"""

import asyncio
import json
import random
import secrets
import sys
import urllib.parse

from websockets.frames import Opcode
from websockets.server import ServerProtocol

V1 = "wsbouncer.v1"


def random_plan(seed):
    """Cuts at any byte: between and within frames, in the handshake that resumes, twice in a row; sessions that are gone."""
    chance = random.Random(seed)
    plan = []
    for number in range(chance.randint(1, 6)):
        span = chance.choice([600, 3000, 20000])
        step = {"how": chance.choice(["reset", "reset", "end"])}
        if chance.random() < 0.5:
            step["in"] = chance.randrange(-100 if number else 0, span)
        else:
            step["out"] = chance.randrange(0 if number else 500, span)  # the first connection must be established
        if number > 0 and chance.random() < 0.1:
            step = {"status": 503}
        elif number > 0 and seed % 3 == 2 and chance.random() < 0.4:
            step["forget"] = True
        plan.append(step)
    if seed % 10 == 9:
        plan[-1] = {"how": "silence", "in": chance.randrange(3000)}
    return plan


class History:
    def __init__(self, query):
        self.plan = json.loads(query["plan"]) if "plan" in query else random_plan(int(query.get("seed", 0)))
        self.chance = random.Random(query.get("seed"))
        self.connections, self.sessions, self.session = 0, [], None

    def step(self):
        """The plan of the next connection."""
        if self.connections < len(self.plan):
            return self.plan[self.connections]
        return self.plan[-1] if self.plan and self.plan[-1].get("forever") else {}


class Session:
    """A session, with the recogniser that serves it."""

    def __init__(self, history):
        self.history, self.connection = history, None
        self.token, self.former = None, None  # the former one is good until something comes on the connection that brought the next
        self.received, self.sent, self.got = 0, [], []
        self.unanswered, self.answered, self.downs = [], 0, 0

    def next_token(self, former):
        self.former, self.token = former, secrets.token_urlsafe(16)
        return self.token

    def take(self, message):
        chance = self.history.chance
        self.received += 1
        text = message if isinstance(message, str) else message.decode()
        self.got.append(["text" if isinstance(message, str) else "bytes", text[:12].split(":")[0], len(text)])
        if text.startswith("open"):
            return
        self.answered += 1
        if text == "end":
            self.final()
            self.say("bye:%d" % self.downs)
            return
        self.unanswered.append(int(text.split(":")[0]))
        for _ in range(chance.choice([0, 0, 1, 2])):
            word = "down:%d:%s" % (self.downs, "." * chance.choice([0, 10, 300, 5000]))
            self.downs += 1
            self.say(word if chance.random() < 0.5 else word.encode())
        if chance.random() < 0.2:
            self.final()

    def final(self):
        self.say(json.dumps({"final": self.unanswered, "answers": self.answered}))
        self.unanswered = []

    def say(self, message):
        self.sent.append(message)
        if self.connection:
            self.connection.send(message)


class Connection:
    def __init__(self, server, reader, writer):
        self.server, self.reader, self.writer = server, reader, writer
        self.protocol = ServerProtocol(select_subprotocol=lambda _, offered: V1 if V1 in offered else None, max_size=None)
        self.dead, self.taking, self.session, self.step = False, False, None, {}
        self.read, self.written, self.parts, self.v1, self.acknowledging = 0, 0, [], False, None

    async def run(self):
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        self.protocol.receive_data(head)
        self.request(*self.protocol.events_received())
        self.flush()
        while not self.dead and (data := await self.reader.read(65536)):
            self.read += len(data)
            over = self.read - self.step.get("in", self.read)
            self.protocol.receive_data(data[:len(data) - over] if over > 0 else data)
            self.taking = True  # so that a pong is written after what came before its ping was taken
            for event in self.protocol.events_received():
                self.event(event)
            self.taking = False
            self.flush()
            if over > 0:
                self.cut()
            if self.protocol.close_rcvd or self.protocol.eof_sent:
                break
        if not self.dead:
            self.lost()
        if self.step.get("how") == "silence" and self.dead:
            await self.server.stopped.wait()
        self.writer.close()

    def flush(self):
        if self.taking:
            return
        for data in self.protocol.data_to_send():
            left = self.step.get("out", self.written + len(data)) - self.written
            if self.dead:
                break
            self.writer.write(data[:max(0, left)])
            self.written += len(data)
            if left < len(data):
                self.cut()

    def cut(self):
        """Cuts the connection as the plan says. The session is parked, unless the connection still seems to live."""
        if self.dead:
            return
        self.dead = True
        how = self.step.get("how", "reset")
        if how == "reset":
            self.writer.transport.abort()
        elif how == "end":
            self.writer.close()
        if how != "silence":
            self.lost()

    def lost(self):
        if self.session and self.session.connection is self:
            self.session.connection = None

    def event(self, event):
        if self.session is None or self.session.connection is not self:
            return
        self.session.former = None
        if event.opcode is Opcode.CLOSE:
            self.session.history.session = None  # it has ended
            return
        if event.opcode in (Opcode.PING, Opcode.PONG):
            return
        self.parts.append(event)
        if event.fin:
            parts, self.parts = self.parts, []
            data = b"".join(bytes(part.data) for part in parts)
            self.session.take(data.decode() if parts[0].opcode is Opcode.TEXT else data)
            if self.v1 and not self.acknowledging:
                self.acknowledging = asyncio.get_running_loop().call_later(0.02, self.acknowledge)
            if self.session.received == 3 and "close" in self.step:
                self.session.history.session = None
                self.protocol.send_close(self.step["close"], "planned")

    def acknowledge(self):
        self.acknowledging = None
        if self.session.connection is self:
            self.control(received=self.session.received)

    def control(self, **fields):
        self.send(json.dumps({"wsbouncer": fields}, separators=(",", ":")))

    def send(self, message):
        if self.protocol.state.name != "OPEN":
            return
        if isinstance(message, str):
            self.protocol.send_text(message.encode())
        else:
            self.protocol.send_binary(message)
        self.flush()

    def request(self, request):
        url = urllib.parse.urlsplit(request.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/record":
            history = self.server.histories[query["id"]]
            record = {"connections": history.connections, "sessions": [session.got for session in history.sessions]}
            self.protocol.send_response(self.protocol.reject(200, json.dumps(record)))
            return
        history = self.server.histories.setdefault(query["id"], History(query))
        elsewhere = url.path == "/elsewhere"
        if not elsewhere:
            self.step = history.step()
        history.connections += 1
        if self.step.get("in", 0) < 0:
            self.cut()
            return
        offered = [name.strip() for value in request.headers.get_all("Sec-WebSocket-Protocol") for name in value.split(",")]
        self.v1 = V1 in offered
        said = {name.split(".")[0]: name.split(".", 1)[1] for name in offered if name.startswith("wsbouncer-")}
        token = said.get("wsbouncer-resume") or query.get("wsbouncer-resume") or request.headers.get("Wsbouncer-Resume")
        count = said.get("wsbouncer-received") or query.get("wsbouncer-received") or request.headers.get("Wsbouncer-Received")
        session = history.session
        if self.step.get("forget"):
            session = history.session = None
        if self.step.get("status") == 503:
            self.refuse(request, 503, 1013, {"Retry-After": "1"})
        elif token and (session is None or token not in (session.token, session.former)):
            self.refuse(request, 410, 4410)
        elif token and (self.step.get("status") == 400 or not 0 <= int(count) <= len(session.sent)):
            self.refuse(request, 400, 4400)
        elif token and self.step.get("go"):
            to = "ws://%s/elsewhere?%s" % (request.headers["Host"], url.query)
            self.refuse(request, 307, 4307, {"Location": to}, go=to)
        else:
            if not token:
                session = history.session = Session(history)
                history.sessions.append(session)
            self.accept(request, session, token, int(count or 0))

    def refuse(self, request, status, code, headers=(), **control):
        if not self.v1:
            response = self.protocol.reject(status, "")
            for name in headers:
                response.headers[name] = headers[name]
            self.protocol.send_response(response)
            return
        self.protocol.send_response(self.protocol.accept(request))
        if control:
            self.control(**control)
        self.protocol.send_close(code, "refused")

    def accept(self, request, session, token, count):
        if session.connection:
            other, session.connection = session.connection, None
            other.protocol.send_close(4409, "taken over")
            other.flush()
        resume = session.next_token(token)
        received = self.step.get("received", session.received)
        session.connection, self.session = self, session
        response = self.protocol.accept(request)
        if not self.v1:
            response.headers["Wsbouncer-Resume"] = resume
            response.headers["Wsbouncer-Received"] = str(received)
            response.headers["Wsbouncer-Sent"] = str(count)
        self.protocol.send_response(response)
        if self.v1:
            self.control(resume=resume, received=received, sent=count)
        for message in session.sent[count:]:
            self.send(message)
        if self.step.get("late"):
            session.connection = None
            session.next_token(token)
            if self.step["late"] == "lost":
                self.flush()
                self.writer.close()
                self.dead = True
            else:
                self.protocol.send_close(4409, "taken over")
                self.flush()


class Server:
    async def start(self):
        self.histories, self.stopped, self.tasks = {}, asyncio.Event(), set()
        self.server = await asyncio.start_server(self.connected, "127.0.0.1", 0, limit=1 << 20)
        return "127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]

    async def connected(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        try:
            await Connection(self, reader, writer).run()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(asyncio.current_task())

    async def stop(self):
        self.stopped.set()
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def main():
    server = Server()
    print(await server.start(), flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until whoever started it closes the pipe
    await server.stop()


if __name__ == "__main__":
    asyncio.run(main())
