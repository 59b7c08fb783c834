import asyncio
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

import websockets
from websockets.asyncio.client import connect

from . import clip, pieces

EOF, RESET = '{"eof" : 1}', '{"reset" : 1}'
SERVER = pathlib.Path(__file__).parents[1] / "server.py"
PATIENCE = 60  # seconds, for anything that should happen soon
LINUX = sys.platform == "linux"


def run(*arguments):
    """Run the server until it ends by itself."""
    return subprocess.run([sys.executable, SERVER, *arguments], capture_output=True, text=True, timeout=PATIENCE)


class Process:
    """A server process, on a free port."""

    async def start(self, *options):
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, SERVER, "--listen", "127.0.0.1:0", *options,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        line = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)
        self.url = line.decode().removeprefix("listening on ").strip()
        return self

    async def stop(self, number=signal.SIGTERM):
        """Return its exit status and what it said on standard error."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        _, errors = await asyncio.wait_for(self.process.communicate(), PATIENCE)
        return self.process.returncode, errors.decode()

    def workers(self):
        """Return the numbers of its workers' processes, as Linux tells them."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
        # Python's resource tracker is a child as well.
        workers = [pid for pid in children if b"spawn_main" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert workers, children
        return workers


async def ask(connection, message):
    await connection.send(message)
    return json.loads(await asyncio.wait_for(connection.recv(), PATIENCE))


async def speak(connection, audio, end=RESET):
    """Stream audio, and return the messages that are not partial."""
    finals = [reply for piece in pieces(audio) if "text" in (reply := await ask(connection, piece))]
    return [*finals, await ask(connection, end)]


def later(finals, seconds):
    """Return final messages with all times later."""
    return [
        final | {"result": [word | {key: round(word[key] + seconds, 4) for key in ("start", "end")} for word in final["result"]]}
        if "result" in final
        else final
        for final in finals
    ]


def text(finals):
    return " ".join(final["text"] for final in finals).strip()


class ServerTest(unittest.IsolatedAsyncioTestCase):
    options = ("--workers", "2")

    async def asyncSetUp(self):
        self.server = await Process().start(*self.options)
        self.addAsyncCleanup(self.server.stop)
        self.url = self.server.url

    async def expect_close(self, connection, code, reason=""):
        """Expect the server to close without another message."""
        with self.assertRaises(websockets.ConnectionClosed) as caught:
            message = await asyncio.wait_for(connection.recv(), PATIENCE)
            self.fail(f"got {message!r} instead of a close")
        self.assertEqual(caught.exception.rcvd.code, code)
        self.assertIn(reason, caught.exception.rcvd.reason)


class Protocol(ServerTest):
    async def test_end_of_audio(self):
        async with connect(self.url) as connection:
            await connection.send('{ "config" : { "sample_rate" : 16000 } }')  # which is not answered
            finals = await speak(connection, clip("young-man"), EOF)
            self.assertIn("young man", text(finals))
            self.assertEqual([word["word"] for word in finals[-1]["result"]], finals[-1]["text"].split())
            await self.expect_close(connection, 1000)

    async def test_reset(self):
        async with connect(self.url) as connection:
            self.assertEqual(await ask(connection, RESET), {"text": ""})
            first = await speak(connection, clip("young-man"))
            self.assertNotEqual(text(await speak(connection, clip("amiable")[:60000])), "")
            before = (len(clip("young-man")) + 60000) / 32000
            self.assertEqual(await speak(connection, clip("young-man")), later(first, before))
            self.assertEqual(await ask(connection, b""), {"partial": ""})
        async with connect(self.url) as connection:
            self.assertEqual(await speak(connection, clip("young-man"), EOF), first)

    async def test_streams_at_the_same_time(self):
        async def stream(name):
            async with connect(self.url) as connection:
                return await speak(connection, clip(name), EOF)

        alone = {name: await stream(name) for name in ("young-man", "amiable")}
        names = [*alone] * 3
        together = await asyncio.gather(*map(stream, names))
        self.assertEqual(together, [alone[name] for name in names])

    async def test_one_answer_to_each_message_in_order(self):
        async with connect(self.url) as connection:
            audio = pieces(clip("young-man"))
            for message in [*audio, RESET, b"", RESET, EOF]:
                await connection.send(message)
            replies = [json.loads(message) async for message in connection]
            self.assertEqual(len(replies), len(audio) + 4)
            self.assertIn("young man", replies[len(audio)]["text"])
            self.assertEqual(replies[len(audio) + 1 :], [{"partial": ""}, {"text": ""}, {"text": ""}])

    async def test_settings_are_those_before_the_first_audio(self):
        async with connect(self.url) as connection:
            await connection.send('{"config" : {"words" : false}}')
            first = await speak(connection, clip("young-man"))
            self.assertEqual([final.keys() for final in first], [{"text"}] * len(first))
            await connection.send('{"config" : {"words" : true, "sample_rate" : 48000}}')
            self.assertEqual(await speak(connection, clip("young-man")), first)

    async def test_messages_that_are_refused(self):
        for message, reason in {
            '{"eof":1}': 'unknown text, expected {"eof" : 1}, {"reset" : 1} or a config: {"eof":1}',
            "hello": "unknown text",
            "config": "unreadable config",
            '["config"]': "unreadable config",
            '{"config" : 8000}': "8000 is not an object",
            '{"config" : {"sample_rate" : 8000}}': "sample_rate 8000 is not supported: use one of 16000, 32000, 48000",
            '{"config" : {"sample_rate" : "fast"}}': "sample_rate 'fast' is not supported",
            "ü" * 200: "unknown text",
        }.items():
            with self.subTest(message=message[:40]):
                async with connect(self.url) as connection:
                    await connection.send(message)
                    await self.expect_close(connection, 1003, reason)


class Limits(ServerTest):
    options = ("--workers", "1", "--connections", "2")

    async def test_connections(self):
        async with connect(self.url) as first, connect(self.url):
            with self.assertRaises(websockets.InvalidStatus) as caught:
                await connect(self.url)
            self.assertEqual(caught.exception.response.status_code, 503)
            self.assertIn(b"all 2 connections are in use", caught.exception.response.body)
            await first.close()
            async with connect(self.url) as third:
                self.assertEqual(await ask(third, b""), {"partial": ""})

    async def test_large_messages(self):
        async with connect(self.url) as connection:
            await connection.send(bytes((4 << 20) + 1))
            await self.expect_close(connection, 1009)

    async def test_clients_that_vanish(self):
        async with connect(self.url) as connection:
            whole = await speak(connection, clip("young-man"), EOF)
        for _ in range(3):
            connection = await connect(self.url)
            for piece in pieces(clip("amiable"))[:9]:
                await connection.send(piece)
            connection.transport.abort()
            await connection.wait_closed()
        async with connect(self.url) as connection:
            self.assertEqual(await speak(connection, clip("young-man"), EOF), whole)


class Ends(ServerTest):
    options = ("--workers", "1")

    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)  # which complains of the process that a test waits for
        await super().asyncSetUp()

    async def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = await Process().start(*self.options)
            async with connect(server.url) as busy, connect(server.url) as idle:
                await ask(busy, clip("young-man")[:32000])
                workers = server.workers() if LINUX else []
                self.assertEqual(await server.stop(number), (0, ""))
                await self.expect_close(busy, 1001)
                await self.expect_close(idle, 1001)
                for worker in workers:
                    self.assertFalse(pathlib.Path(f"/proc/{worker}").exists(), "a worker outlived its server")

    @unittest.skipUnless(LINUX, "finds processes in /proc")
    async def test_a_worker_that_is_lost(self):
        async with connect(self.url) as connection:
            await ask(connection, b"")
            for worker in self.server.workers():
                os.kill(worker, signal.SIGKILL)
            await connection.send(b"")
            await self.expect_close(connection, 1011, "the recogniser's process was lost")
        async with connect(self.url) as connection:
            self.assertIn("young man", text(await speak(connection, clip("young-man"), EOF)))

    async def test_an_address_in_use(self):
        result = run("--listen", self.url.removeprefix("ws://"))
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"^pocketsphinx-server: cannot listen on 127.0.0.1:\d+: .*in use")


class Options(unittest.TestCase):
    def test_refused(self):
        for arguments, reason in {
            ("--listen", "2700"): "'2700' is not an address: use host:port",
            ("--listen", "127.0.0.1:99999"): "is not an address",
            ("--connections", "0"): "'0' is not a number from 1 to 1000",
            ("--workers", "many"): "'many' is not a number",
        }.items():
            result = run(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(reason, result.stderr)
