"""Sends a recording with Deepgram's SDK, and prints the final results."""

import sys
import threading
import time
import urllib.parse
import wave

from deepgram import DeepgramClient
from deepgram.core.events import EventType
from deepgram.environment import DeepgramClientEnvironment

CHUNK = 0.25  # seconds

url = urllib.parse.urlsplit(sys.argv[1])
base = f"{url.scheme}://{url.netloc}{url.path.removesuffix('/v1/listen')}"
with wave.open(sys.argv[2], "rb") as file:
    rate, audio = file.getframerate(), file.readframes(file.getnframes())
    assert (rate, file.getsampwidth(), file.getnchannels()) == (16000, 2, 1), "16 kHz, 16 bits, one channel"


def told(event):
    if event.type == "Results" and event.is_final:
        for word in event.channel.alternatives[0].words:
            print(word.start, word.end, word.word)
    elif event.type == "Metadata" and event.duration:
        print("duration", event.duration)


client = DeepgramClient(api_key="none", environment=DeepgramClientEnvironment(base=base, production=base, agent=base, agent_rest=base))
# The server takes no other than its own detector's pauses as ends of utterances, and it runs without one here.
with client.listen.v1.connect(model="nova-3", encoding="linear16", sample_rate=str(rate), interim_results="true", endpointing="false") as socket:
    socket.on(EventType.MESSAGE, told)
    socket.on(EventType.ERROR, lambda error: print("error", error))
    listener = threading.Thread(target=socket.start_listening)
    listener.start()
    size = int(CHUNK * rate) * 2
    for at in range(0, len(audio), size):
        socket.send_media(audio[at:at + size])
        time.sleep(CHUNK)
    socket.send_close_stream()
    listener.join()
