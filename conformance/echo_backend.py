"""The WebSocket echo server that the conformance run puts behind wsbouncer.

Every message is sent back whole, text as text and binary as binary, without compression and without pings of the
server's own, so that whatever else Autobahn sees on the wire comes from the client or from the proxy.
"""

import argparse
import asyncio
import logging
import ssl

from websockets.asyncio.server import serve

MAX_MESSAGE = 64 * 1024 * 1024  # Autobahn's largest message has 16 MiB


async def echo(connection):
    async for message in connection:
        await connection.send(message)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="loopback port; 0 takes a free one (default)")
    parser.add_argument("--certificate", help="PEM file; with it and --key, speak TLS")
    parser.add_argument("--key")
    options = parser.parse_args()
    context = None
    if options.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.certificate, options.key)
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("websockets.server").setLevel(logging.CRITICAL)  # broken frames are what it is fed

    async with serve(echo, "127.0.0.1", options.port, ssl=context, max_size=MAX_MESSAGE, compression=None, ping_interval=None) as server:
        # The first line on stdout tells the caller where to find us.
        print("%s://127.0.0.1:%d" % ("wss" if context else "ws", server.sockets[0].getsockname()[1]), flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
