"""Sends a recording with OpenAI's SDK, and prints the transcripts of the turns that the server finds."""

import base64
import sys
import threading
import time
import urllib.parse
import wave

import numpy
from openai import OpenAI

CHUNK = 0.25  # seconds
RATE = 24000

url = urllib.parse.urlsplit(sys.argv[1])
query = dict(urllib.parse.parse_qsl(url.query))
with wave.open(sys.argv[2], "rb") as file:
    rate, audio = file.getframerate(), file.readframes(file.getnframes())
    assert (file.getsampwidth(), file.getnchannels()) == (2, 1), "16 bits, one channel"
samples = numpy.frombuffer(audio, dtype="<i2")
at = numpy.arange(len(samples) * RATE // rate) * rate / RATE
samples = numpy.rint(numpy.interp(at, numpy.arange(len(samples)), samples)).astype("<i2")
samples = numpy.concatenate([samples, numpy.zeros(3 * RATE, dtype="<i2")])  # the turn ends with a pause

client = OpenAI(api_key="none", base_url=f"http{url.scheme[2:]}://{url.netloc}{url.path.removesuffix('/realtime')}", max_retries=0)
with client.realtime.connect(model=query.pop("model"), extra_query=query) as connection:
    started, done = set(), threading.Event()

    def listen():
        for event in connection:
            match event.type:
                case "input_audio_buffer.speech_started":
                    started.add(event.item_id)
                    print("from", event.audio_start_ms, flush=True)
                case "input_audio_buffer.speech_stopped":
                    print("to", event.audio_end_ms, flush=True)
                case "conversation.item.input_audio_transcription.completed":
                    print(event.transcript, flush=True)
                    started.discard(event.item_id)
                case "error":
                    print("error", event.error.message, flush=True)

    threading.Thread(target=listen, daemon=True).start()
    for chunk in numpy.split(samples, range(int(CHUNK * RATE), len(samples), int(CHUNK * RATE))):
        connection.input_audio_buffer.append(audio=base64.b64encode(chunk.tobytes()).decode())
        time.sleep(CHUNK)
    deadline = time.monotonic() + 10
    while started and time.monotonic() < deadline:
        time.sleep(0.1)
