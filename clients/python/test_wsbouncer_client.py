"""Tests of the client against ../testing/standin.py: python -m unittest in this folder."""

import asyncio
import functools
import json
import os
import pathlib
import random
import sys
import unittest
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "testing"))

import standin
from websockets.exceptions import ConnectionClosed, InvalidStatus
import wsbouncer_client

HISTORIES = int(os.environ.get("HISTORIES", 300))
LIMIT = 300  # seconds that a history may take; one that passes takes a few
connect = functools.partial(wsbouncer_client.connect, open_timeout=LIMIT, reconnect=LIMIT)


class Case(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)  # which makes it slow
        self.server = standin.Server()
        self.address = await self.server.start()
        self.addAsyncCleanup(self.server.stop)
        self.ids = 0

    def url(self, **query):
        self.ids += 1
        self.id = str(self.ids)
        if "plan" in query:
            query["plan"] = json.dumps(query["plan"])
        return "ws://%s/session?%s" % (self.address, urllib.parse.urlencode({"id": self.id} | query))

    def sessions(self):
        return [session.got for session in self.server.histories[self.id].sessions]


class Random(Case):
    """Random histories: every message arrives once, in order, both ways; and after restarts, each is answered by one final."""

    async def test_histories(self):
        room = asyncio.Semaphore(30)

        async def limited(seed):
            async with room, asyncio.timeout(LIMIT):
                await self.history(seed)

        results = await asyncio.gather(*[limited(seed) for seed in range(HISTORIES)], return_exceptions=True)
        for seed, result in enumerate(results):
            with self.subTest(seed=seed):
                if result is not None:
                    raise result
        cuts = sum(history.connections - len(history.sessions) for history in self.server.histories.values())
        restarts = sum(len(history.sessions) - 1 for history in self.server.histories.values())
        print("%d histories, %d returns, %d restarts" % (HISTORIES, cuts, restarts))
        self.assertGreater(cuts, HISTORIES / 2)
        self.assertGreater(restarts, HISTORIES / 20)

    async def history(self, seed):
        chance = random.Random(seed)
        chunks = []
        for i in range(chance.randint(5, 60)):
            text = "%d:%s" % (i, "x" * chance.choice([0, 10, 1000, 20000]))
            chunks.append(text if chance.random() < 0.3 else text.encode())
        url = self.url(seed=seed)
        history = self.id
        downs, finals, restarts = [[]], [], []

        def is_final(message):
            return isinstance(message, str) and message.startswith("{") and json.loads(message)["answers"]

        def restarted(replayed, lost):
            restarts.append((replayed, lost))

        async with connect(url, opening=["open"], is_final=is_final, on_restarted=restarted,
                           silence=2 if seed % 10 == 9 else LIMIT) as ws:  # those have a silent connection
            async def talk():
                for chunk in [*chunks, "end"]:
                    await ws.send(chunk)
                    await asyncio.sleep(chance.choice([0, 0, 0.001, 0.02]))

            talking = asyncio.create_task(talk())
            async for message in ws:
                text = message if isinstance(message, str) else message.decode()
                if text.startswith("{"):
                    finals += json.loads(text)["final"]
                elif text.startswith("bye"):
                    said = int(text.split(":")[1])
                    break
                else:
                    number = int(text.split(":")[1])
                    if number == 0:
                        downs.append([])
                    downs[-1].append(number)
            await talking
        self.assertEqual(finals, list(range(len(chunks))), "finals")
        sessions = [session.got for session in self.server.histories[history].sessions]
        for numbers in downs:
            self.assertEqual(numbers, list(range(len(numbers))), "what a session said")
        self.assertEqual(len(downs[-1]), said)
        self.assertEqual([lost for _, lost in restarts if lost], [])
        self.assertGreaterEqual(len(sessions), len(restarts) + 1)  # more if the answer to a new one was lost
        sizes = [["text" if isinstance(chunk, str) else "bytes", str(i), len(chunk)] for i, chunk in enumerate(chunks)]
        for got in sessions:
            if not got:
                continue
            self.assertEqual(got[0], ["text", "open", 4])
            body = [message for message in got[1:] if message[1] != "end"]
            if body:
                first = int(body[0][1])
                self.assertEqual(body, sizes[first:first + len(body)], "what a session got")
        self.assertEqual(sessions[-1][-1][1], "end")
        if not restarts:
            self.assertEqual(len(sessions[0]), 1 + len(chunks) + 1)


class Planned(Case):
    async def end(self, ws, before=()):
        """Sends these messages and the end, and reads until the last one comes."""
        async def read():
            while not str(await ws.recv()).startswith("bye"):
                pass

        reading = asyncio.create_task(read())
        for message in [*before, "end"]:
            await ws.send(message)
        await reading

    def bounded(self, ws):
        """Returns a function that makes messages, and checks that the client does not keep too many."""
        def message(i):
            self.assertLessEqual(sum(map(len, ws._kept)), 10000)
            return "%d:%s" % (i, "x" * 1000)

        return message

    async def converse(self, count=5, **plan_and_options):
        query = {"plan": plan_and_options.pop("plan")}
        async with asyncio.timeout(LIMIT), connect(self.url(**query), opening=["open"], **plan_and_options) as ws:
            await self.end(ws, ["%d:" % i for i in range(count)])

    async def test_redirected(self):
        await self.converse(plan=[{"in": 9, "how": "reset"}, {"go": True}])
        self.assertEqual([name for _, name, _ in self.sessions()[0]], ["open", "0", "1", "2", "3", "4", "end"])
        self.assertEqual(self.server.histories[self.id].connections, 3)

    async def test_come_again(self):
        await self.converse(plan=[{"in": 9, "how": "reset"}, {"status": 503}, {"status": 503}])
        self.assertEqual([name for _, name, _ in self.sessions()[0]], ["open", "0", "1", "2", "3", "4", "end"])
        self.assertEqual(self.server.histories[self.id].connections, 4)

    async def test_taken_over(self):
        with self.assertRaises(ConnectionClosed) as raised:
            await self.converse(plan=[{"close": 4409}])
        self.assertEqual(raised.exception.rcvd.code, 4409)
        self.assertEqual(self.server.histories[self.id].connections, 1)
        with self.assertRaises(ConnectionClosed) as raised:
            await self.converse(plan=[{"in": 9, "how": "reset"}, {"close": 4409}])
        self.assertEqual(raised.exception.rcvd.code, 4409)

    async def test_late_request(self):
        for late, connections in (True, 3), ("lost", 4):
            await self.converse(plan=[{"in": 9, "how": "reset"}, {"late": late}], is_final=lambda m: False)
            self.assertEqual([name for _, name, _ in self.sessions()[0]], ["open", "0", "1", "2", "3", "4", "end"])
            self.assertEqual((len(self.sessions()), self.server.histories[self.id].connections), (1, connections))

    async def test_refused(self):
        for status, plan in [(400, [{"in": 9}, {"status": 400}]), (410, [{"in": 9}, {"forget": True}])]:
            with self.assertRaises(InvalidStatus) as raised:
                await self.converse(plan=plan)
            self.assertEqual(raised.exception.response.status_code, status)

    async def test_first_connection_fails(self):
        with self.assertRaises(InvalidStatus):
            await self.converse(plan=[{"status": 503}])

    async def test_restarted_without_numbers(self):
        """A final that is just true: nothing but what was sent after it is sent again."""
        restarts, finals = [], asyncio.Event()

        def is_final(message):
            if message.startswith("{"):
                finals.set()
                return True

        history = standin.History({"plan": json.dumps([{"in": 2000, "how": "reset"}, {"forget": True}])})
        history.chance = random.Random(1)
        url = self.url()
        self.server.histories[self.id] = history
        async with asyncio.timeout(LIMIT), connect(
                url, opening=["open"], is_final=lambda m: isinstance(m, str) and is_final(m),
                on_restarted=lambda *args: restarts.append(args)) as ws:
            i = 0
            while not finals.is_set():
                await ws.send("%d:" % i)
                i += 1
                await asyncio.sleep(0.01)
            sent = i
            await ws.send("%d:%s" % (i, "x" * 4000))  # which cuts the connection
            await self.end(ws)
        self.assertEqual(len(self.sessions()), 2)
        names = [name for _, name, _ in self.sessions()[1]]
        self.assertEqual(names[0], "open")
        self.assertGreaterEqual(int(names[1]), 1)
        self.assertLessEqual(int(names[1]), sent)
        self.assertEqual(restarts[0][1], 0)

    async def test_wrong_count(self):
        """A proxy that claims more than was sent, or less than it had acknowledged, does not have this session."""
        for claimed in (1000, 0):
            restarts = []
            async with asyncio.timeout(LIMIT), connect(
                    self.url(plan=[{"in": 300}, {"received": claimed}]), silence=0.5, is_final=lambda m: False,
                    on_restarted=lambda *args: restarts.append(args)) as ws:
                await ws.send("0:")
                while not ws._acknowledged:
                    await asyncio.sleep(0.01)
                await ws.send("1:%s" % ("x" * 1000))  # which cuts the connection
                await self.end(ws)
            self.assertEqual([[name for _, name, _ in got] for got in self.sessions()], [["0"], ["0", "1", "end"]])
            self.assertEqual(restarts, [(3, 0)])

    async def test_silence(self):
        await self.converse(plan=[{"in": 9, "how": "silence"}], silence=0.5)
        self.assertEqual([name for _, name, _ in self.sessions()[0]], ["open", "0", "1", "2", "3", "4", "end"])

    async def test_gives_up(self):
        async with connect(self.url(plan=[{"in": 9}, {"status": 503, "forever": True}]), reconnect=1) as ws:
            with self.assertRaises(TimeoutError):
                await self.end(ws, ["0:"])

    async def test_full_buffer(self):
        """Sending waits while the buffer is full, and goes on when the connection is back."""
        async with asyncio.timeout(LIMIT), connect(self.url(plan=[{"in": 2000, "how": "silence"}]), max_buffer=10000, silence=1) as ws:
            await self.end(ws, map(self.bounded(ws), range(50)))
        self.assertEqual([name for _, name, _ in self.sessions()[0]], [*map(str, range(50)), "end"])

    async def test_room_before_finals(self):
        """What is acknowledged but not answered makes room, and is reported as lost."""
        restarts = []
        async with asyncio.timeout(LIMIT), connect(
                self.url(plan=[{"in": 30000}, {"forget": True}]), max_buffer=10000, silence=1, is_final=lambda m: False,
                on_restarted=lambda *args: restarts.append(args)) as ws:
            await self.end(ws, map(self.bounded(ws), range(50)))
        (replayed, lost), = restarts
        self.assertGreater(lost, 0)
        self.assertLessEqual(replayed, 11)

    async def test_close_delivers(self):
        """Closing ends the session only when everything was taken, over another connection if the first is lost."""
        url = self.url(plan=[{"in": 5000, "how": "reset"}])
        async with asyncio.timeout(LIMIT), connect(url) as ws:
            for i in range(20):
                await ws.send("%d:%s" % (i, "x" * 1000))
        self.assertEqual([name for _, name, _ in self.sessions()[0]], [*map(str, range(20))])
        self.assertIsNone(self.server.histories[self.id].session)


if __name__ == "__main__":
    unittest.main()
