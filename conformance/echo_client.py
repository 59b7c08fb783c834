"""The WebSocket client that the conformance run against Autobahn's fuzzing server judges.

It reads lines from stdin, each "CASE URL", connects to one after the other, and sends every message back whole, text as
text and binary as binary, until the connection ends: without compression and without pings of its own, so that whatever
else Autobahn sees on the wire comes from the proxy. For each it prints a line of JSON: how the connection ended, as the
client sees it.

With --list it prints the identifiers of the cases that the fuzzing server at this URL runs.
"""

import argparse
import asyncio
import json
import logging
import sys

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

PATIENCE = 150  # seconds for a case: Autobahn itself gives some of them 100


def dial(url):
    return connect(url, max_size=None, compression=None, ping_interval=None, proxy=None, open_timeout=30, close_timeout=5)


async def echo(url):
    """How the connection ended: the close codes, or why there were none."""
    try:
        async with dial(url) as connection:
            try:
                while True:
                    await connection.send(await connection.recv())
            except ConnectionClosed as closed:
                received, sent = closed.rcvd, closed.sent
                return {"received": received and int(received.code), "sent": sent and int(sent.code),
                        "reason": received.reason if received else ""}
    except (OSError, WebSocketException) as error:
        return {"refused": "%s: %s" % (type(error).__name__, error)}


async def patiently(url):
    try:
        return await asyncio.wait_for(echo(url), PATIENCE)
    except asyncio.TimeoutError:
        return {"hung": "no end within %d s" % PATIENCE}


async def ask(url):
    async with dial(url) as connection:
        return json.loads(await connection.recv())


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", metavar="URL", help="print the fuzzing server's cases")
    server = parser.parse_args().list
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("websockets.client").setLevel(logging.CRITICAL)  # broken frames are what it is fed

    if server:
        for number in range(1, await ask(server + "/getCaseCount") + 1):
            print((await ask("%s/getCaseInfo?case=%d" % (server, number)))["id"], flush=True)
        return
    for line in sys.stdin:
        case, url = line.split()
        print(json.dumps({"case": case, **await patiently(url)}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
