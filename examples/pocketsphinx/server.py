#!/usr/bin/env python3
"""A speech recogniser over WebSocket: PocketSphinx behind the protocol of the Vosk server.

The protocol is that of alphacep/vosk-server, websocket/asr_server.py; README.md here says where the two differ.
"""

import argparse
import asyncio
import json
import logging
import os
import re
import signal
import sys

import websockets
from websockets.asyncio.server import serve
from websockets.frames import CloseCode

from recogniser import SAMPLE_RATES
from workers import Workers

# Commands are compared byte by byte, as the Vosk server does.
EOF = '{"eof" : 1}'
RESET = '{"reset" : 1}'

LARGEST_MESSAGE = 4 << 20  # bytes: 2 minutes of audio at 16 kHz

log = logging.getLogger("pocketsphinx-server")


class BadMessage(Exception):
    """A message that the protocol does not know. It ends the session."""


class Settings:
    """What a client may set before its first audio; later it is ignored, as the Vosk server does."""

    def __init__(self):
        self.sample_rate = SAMPLE_RATES[0]
        self.words = True  # list the words with their times

    def read(self, message):
        """Take over what a configuration sets, and leave the rest as it was."""
        try:
            config = json.loads(message)["config"]
        except (ValueError, KeyError, TypeError):
            raise BadMessage(f'unreadable config, expected {{"config" : {{...}}}}: {message:.60}') from None
        if not isinstance(config, dict):
            raise BadMessage(f"config: {json.dumps(config):.40} is not an object")
        if "sample_rate" in config:
            if config["sample_rate"] not in SAMPLE_RATES:
                allowed = ", ".join(map(str, SAMPLE_RATES))
                raise BadMessage(f"config: sample_rate {config['sample_rate']!r:.20} is not supported: use one of {allowed}")
            self.sample_rate = int(config["sample_rate"])
        if "words" in config:
            self.words = bool(config["words"])
        for name in config.keys() - {"sample_rate", "words"}:
            log.warning("config: %s is not supported and has no effect", name)


def final(words, with_times, began=0.0):
    """Return the message for utterances that have ended. The recogniser's audio began that number of seconds after the connection's."""
    message = {"text": " ".join(word["word"] for word in words)}
    if words and with_times:
        times = [word | {key: f"@{word[key] + began:.6f}" for key in ("start", "end")} for word in words]
        message = {"result": times} | message
    # Six decimals, as the Vosk server has it, which Python's numbers cannot say.
    return re.sub(r'"@([0-9.]+)"', r"\1", json.dumps(message, indent=2, separators=(",", " : ")))


def partial(text):
    """Return the message for the utterance under way."""
    return json.dumps({"partial": text}, indent=2, separators=(",", " : "))


class Server:
    """Sessions over WebSocket, each with a recogniser in one of the workers."""

    def __init__(self, workers, limit):
        self._workers, self._limit = workers, limit
        self._open = set()  # connections, from the upgrade request on
        self._full = False  # a client was refused, and the log reports it, since a connection last ended
        self._farewells = set()  # tasks that wait for their ends

    def admit(self, connection, _request):
        """Refuse an upgrade above the limit with HTTP 503."""
        if len(self._open) >= self._limit:
            if not self._full:
                log.warning("refusing connections: all %d are in use", self._limit)
            self._full = True
            return connection.respond(503, f"all {self._limit} connections are in use\n")
        self._open.add(connection)
        farewell = asyncio.create_task(self._forget(connection))
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)
        return None

    async def _forget(self, connection):
        await connection.wait_closed()
        self._open.discard(connection)
        self._full = False

    async def handle(self, connection):
        """Serve one connection until its end."""
        try:
            await self._converse(connection)
        except websockets.ConnectionClosed:
            pass
        except BadMessage as error:
            await close(connection, CloseCode.UNSUPPORTED_DATA, str(error))
        except Exception as error:  # the session's own: others continue
            log.exception("a session failed")
            await close(connection, CloseCode.INTERNAL_ERROR, str(error))

    async def _converse(self, connection):
        """Answer every message but configurations with exactly one message, in order."""
        settings = Settings()
        session = None
        heard, began = 0, 0.0  # bytes since the last reset, and seconds before it: a reset does not turn the clock back
        try:
            while True:
                message = await connection.recv()
                if isinstance(message, str) and "config" in message:
                    (Settings() if session else settings).read(message)
                    continue
                if session is None:
                    session = self._workers.session(settings.sample_rate)
                if isinstance(message, bytes):
                    words, text = await session.accept(message)
                    heard += len(message)
                    await connection.send(final(words, settings.words, began) if words else partial(text))
                elif message in (EOF, RESET):
                    await connection.send(final(await session.finish(), settings.words, began))
                    if message == EOF:
                        return
                    began += heard / 2 / settings.sample_rate
                    heard = 0
                else:
                    raise BadMessage(f"unknown text, expected {EOF}, {RESET} or a config: {message:.40}")
        finally:
            if session:
                session.close()


async def close(connection, code, reason):
    """Close with a reason, which a close frame has 123 bytes for."""
    log.warning("%s:%s: %s", *connection.remote_address[:2], reason)
    await connection.close(code, reason.encode()[:123].decode(errors="ignore"))


async def run(options):
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    workers = Workers(options.workers)
    try:
        await workers.start()
        server = Server(workers, options.connections)
        host, port = options.listen
        # Audio does not compress, and a proxy in front does not offer compression either.
        async with serve(server.handle, host, port, process_request=server.admit, compression=None,
                         max_size=LARGEST_MESSAGE) as listener:
            host, port = listener.sockets[0].getsockname()[:2]
            print(f"listening on ws://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
            await stop.wait()
            log.info("ending %d connections", len(listener.connections))
        # Leaving the block has closed them with 1001.
    finally:
        workers.stop()


def address(text):
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address: use host:port, such as 127.0.0.1:2700")
    return host.strip("[]"), int(port)


def count(text):
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listen", metavar="HOST:PORT", type=address, default=("127.0.0.1", 2700),
                        help="address to listen on; port 0 takes any free one, which is printed (default: 127.0.0.1:2700)")
    parser.add_argument("--connections", metavar="N", type=count, default=100,
                        help="most connections at once; more are refused with HTTP 503 (default: 100)")
    parser.add_argument("--workers", metavar="N", type=count, default=os.cpu_count() or 1,
                        help="processes that recognise speech (default: one per processor)")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    try:
        asyncio.run(run(options))
    except OSError as error:
        sys.exit(f"pocketsphinx-server: cannot listen on {options.listen[0]}:{options.listen[1]}: {error.strerror or error}")


if __name__ == "__main__":
    main()
