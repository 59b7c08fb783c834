"""What a client tells the run: the events that its SDK delivered, and the error, if any, as JSON on standard output."""

import argparse
import hashlib
import importlib.metadata
import json
import time
import wave

CHUNK_MS = 100
PACE = 0.01  # seconds between two chunks: ten times as fast as speech
TEXT = ["Said ", "in pieces, ", "word for ", "word."]  # what services that speak are given


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True, help="where the server listens, such as ws://127.0.0.1:9001")
    parser.add_argument("--key", required=True, help="the API key")
    parser.add_argument("--word", required=True, help="a word to boost; the simulated servers add it to transcripts")
    parser.add_argument("--audio", required=True, help="a WAV file, mono, 16 bits")
    return parser.parse_args()


class Audio:
    """A WAV file's sound, in chunks."""

    def __init__(self, path):
        with wave.open(path) as source:
            self.rate = source.getframerate()
            self.pcm = source.readframes(source.getnframes())

    def chunks(self):
        size = self.rate * 2 * CHUNK_MS // 1000
        whole = len(self.pcm) // size * size
        return [self.pcm[at:at + size] for at in range(0, whole, size)]

    def halves(self):
        chunks = self.chunks()
        return chunks[:len(chunks) // 2], chunks[len(chunks) // 2:]


def paced(chunks):
    for chunk in chunks:
        yield chunk
        time.sleep(PACE)


class Report:
    def __init__(self, package):
        self.package = package
        self.events = []   # {"role": start, partial, final, end or other; "type"; "text"; "event": all its fields}
        self.invalid = []  # what the SDK's own models object to
        self.error = None
        self.audio = b""   # that a service spoke

    def spoke(self, audio):
        self.audio += audio

    def add(self, role, kind, text, event):
        self.events.append({"role": role, "type": kind, "text": text, "event": event})

    def reject(self, kind, reason):
        self.invalid.append("%s: %s" % (kind, " ".join(str(reason).split())))

    def fail(self, error, **facts):
        """The SDK raised error, or gave it to its error handler. Facts are what a program could act on."""
        if self.error is None:
            self.error = {"class": "%s.%s" % (type(error).__module__, type(error).__name__), "text": str(error), **facts}

    def print(self):
        print(json.dumps({
            "sdk": "%s %s" % (self.package, importlib.metadata.version(self.package)),
            "events": self.events, "invalid": self.invalid, "error": self.error,
            "audio": [len(self.audio), hashlib.sha256(self.audio).hexdigest()],
        }))
