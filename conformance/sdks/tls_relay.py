"""TLS in front of a plain server, for a client that uses no other. Prints its wss:// URL and runs until it is terminated."""

import argparse
import asyncio
import contextlib
import ssl


async def copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", required=True, help="host:port of the server")
    parser.add_argument("--certificate", required=True)
    parser.add_argument("--key", required=True)
    options = parser.parse_args()
    host, _, port = options.to.rpartition(":")

    async def relay(reader, writer):
        server_reader, server_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(copy(reader, server_writer), copy(server_reader, writer))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.certificate, options.key)
    listener = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context)
    print("wss://127.0.0.1:%d" % listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
