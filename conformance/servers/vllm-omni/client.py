"""vLLM-Omni's own client for duplex sessions. Followed by the URL and the WAV file."""

import asyncio
import os
import sys
import wave

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import stubs

stubs.install(["vllm_omni"], ["vllm_omni.clients"])

from vllm_omni.clients.duplex import DuplexClient


async def main():
    with wave.open(sys.argv[2]) as recording:
        audio = recording.readframes(recording.getnframes())
    async with DuplexClient(sys.argv[1], model="stub") as client:
        await client.stream_pcm(audio, realtime=False)
        await client.commit()
        async for response in client.responses():
            await response.wait()
            print(response.transcript)
            break


asyncio.run(main())
