"""Sends a recording with WhisperLive's own client, and prints the segments that it takes for complete."""

import pathlib
import sys
import time
import urllib.parse
import wave

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import stubs

stubs.install(["pyaudio"])  # for microphones

from whisper_live.client import StreamingTranscriptionClient

CHUNK = 0.25  # seconds
QUIET = 4  # seconds without a new segment: the server drops at the end what it has not transcribed

url, recording = urllib.parse.urlsplit(sys.argv[1]), pathlib.Path(sys.argv[2])
with wave.open(str(recording), "rb") as file:
    rate, audio = file.getframerate(), file.readframes(file.getnframes())
    assert (rate, file.getsampwidth(), file.getnchannels()) == (16000, 2, 1), "16 kHz, 16 bits, one channel"
audio += bytes(2 * 2 * rate)  # the server leaves less than a second alone

results, sys.stdout = sys.stdout, sys.stderr  # the client prints as it connects, from two threads
heard = time.monotonic()


def committed(text, segments):
    global heard
    heard = time.monotonic()
    print(segments[0]["start"], segments[0]["end"], text, file=results, flush=True)


# The client knows no path: it stands behind the port.
address = f"{url.port}{url.path}" + (f"?{url.query}" if url.query else "")
with StreamingTranscriptionClient(url.hostname, address, lang="en", on_committed_transcript=committed) as client:
    size = int(CHUNK * rate) * 2
    for at in range(0, len(audio), size):
        client.send(audio[at:at + size])
        time.sleep(CHUNK)
    heard = time.monotonic()
    while time.monotonic() < heard + QUIET:
        time.sleep(0.1)
