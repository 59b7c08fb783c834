"""The proxy that one writes in Python with FastAPI: a backend connection for each client, a task for each direction.

It is here to be compared with wsbouncer, and is written as well as that design allows: uvloop and httptools, no
compression, no logging and no copy of a message, and backpressure both ways, since each task awaits a send before it
receives again. gunicorn runs it with a uvicorn worker for each processor, because one interpreter uses one of them:

    BACKENDS=ws://127.0.0.1:9001,ws://127.0.0.1:9002 gunicorn -w 2 -k relay.Worker -b 127.0.0.1:8080 relay:app
"""

import asyncio
import os
import ssl

import websockets
from fastapi import FastAPI, WebSocket
from uvicorn_worker import UvicornWorker

MAX_MESSAGE = 16 * 1024 * 1024


class Worker(UvicornWorker):
    CONFIG_KWARGS = {
        "loop": "uvloop",
        "http": "httptools",
        "ws": "websockets-sansio",
        "ws_max_size": MAX_MESSAGE,
        "ws_per_message_deflate": False,
        "lifespan": "off",
        "access_log": False,
    }


app = FastAPI()
in_use = {url: 0 for url in os.environ["BACKENDS"].split(",")}  # sessions of this worker on each backend
tls = ssl.create_default_context(cafile=os.environ["BACKEND_CA"]) if os.environ.get("BACKEND_CA") else None


async def from_client(client: WebSocket, backend: websockets.ClientConnection) -> None:
    """Relay until the client has left; then leave the backend with the same code."""
    while True:
        event = await client.receive()
        if event["type"] == "websocket.disconnect":
            code = event.get("code", 1000)
            await backend.close(code if code not in (1005, 1006, 1015) else 1000)
            return
        message = event.get("bytes")
        await backend.send(event["text"] if message is None else message)


async def from_backend(client: WebSocket, backend: websockets.ClientConnection) -> None:
    """Relay until the backend has left; then leave the client with its code."""
    try:
        async for message in backend:
            if isinstance(message, str):
                await client.send_text(message)
            else:
                await client.send_bytes(message)
    except websockets.ConnectionClosed:
        pass  # it left without a proper close
    code = backend.close_code
    await client.close(code if code not in (None, 1005, 1006, 1015) else 1011, backend.close_reason or "")


@app.websocket("/{path:path}")
async def relay(client: WebSocket, path: str) -> None:
    url = min(in_use, key=in_use.get)  # least connections, as far as one worker knows
    in_use[url] += 1
    try:
        async with websockets.connect(
            url, ssl=tls, compression=None, max_size=MAX_MESSAGE, proxy=None, user_agent_header=None
        ) as backend:
            await client.accept()
            tasks = [asyncio.create_task(from_client(client, backend)), asyncio.create_task(from_backend(client, backend))]
            _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    except (OSError, websockets.InvalidHandshake):
        await client.close(1011)  # before accept: HTTP 403
    finally:
        in_use[url] -= 1
