"""The conversation of a client with an echo server: python echo.py FOLDER URL COUNT. FOLDER has the client.

It sends so many messages, of text and bytes, and expects each back once and in order."""

import asyncio
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])

from wsbouncer_client import connect


def message(i):
    text = "%d:%s" % (i, "x" * (i * 7919 % 3000))
    return text if i % 2 else text.encode()


async def converse(url, count):
    window = asyncio.Semaphore(8)

    async def send(ws):
        for i in range(count):
            await window.acquire()
            await ws.send(message(i))

    async with connect(url, silence=1, reconnect=60) as ws:
        sending = asyncio.create_task(send(ws))
        for i in range(count):
            got = await ws.recv()
            if got != message(i):
                sys.exit("got %.20r; want %d" % (got, i))
            window.release()
        await sending


asyncio.run(converse(sys.argv[2], int(sys.argv[3])))
