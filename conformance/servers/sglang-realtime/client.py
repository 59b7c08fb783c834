"""A client with OpenAI's SDK, whose types the server takes its messages from. Followed by the URL and the WAV file."""

import asyncio
import base64
import sys
import wave
from urllib.parse import urlsplit

from openai import AsyncOpenAI


async def main():
    url = urlsplit(sys.argv[1])
    with wave.open(sys.argv[2]) as recording:
        rate, audio = recording.getframerate(), recording.readframes(recording.getnframes())
    client = AsyncOpenAI(api_key="none", websocket_base_url=f"ws://{url.netloc}{url.path.removesuffix('/realtime')}")
    async with client.realtime.connect(model="stub") as connection:
        await connection.session.update(session={"type": "transcription", "audio": {"input": {"format": {"type": "audio/pcm", "rate": rate}}}})
        for i in range(0, len(audio), rate // 5):
            await connection.input_audio_buffer.append(audio=base64.b64encode(audio[i:i + rate // 5]).decode())
        await connection.input_audio_buffer.commit()
        async for event in connection:
            if event.type == "error":
                sys.exit(event.error.message)
            if event.type == "conversation.item.input_audio_transcription.delta":
                print(event.delta)
            if event.type == "conversation.item.input_audio_transcription.completed":
                print(event.transcript)
                return


asyncio.run(main())
