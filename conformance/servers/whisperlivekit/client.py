"""Sends a recording with WhisperLiveKit's own client, and prints the lines of its last result."""

import asyncio
import pathlib
import sys
import wave

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import stubs

stubs.install(["torch", "numba"])  # which the client does not need

from whisperlivekit import test_client


def load(path, rate=16000):
    """The samples of a WAV file, which the client asks FFmpeg for."""
    with wave.open(path, "rb") as file:
        assert (file.getframerate(), file.getsampwidth(), file.getnchannels()) == (rate, 2, 1), "16 kHz, 16 bits, one channel"
        return file.readframes(file.getnframes())


test_client.load_audio_pcm = load
result = asyncio.run(test_client.transcribe_audio(sys.argv[2], sys.argv[1]))
for line in result.lines:
    print(*line.values())
print(result.text)
