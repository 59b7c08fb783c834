"""Runs RealtimeSTT's production server, as installed, with an engine in its registry that has words instead of a model (words.py)."""

import os
import sys
import types

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import words  # noqa: E402
from RealtimeSTT.transcription_engines import base, factory  # noqa: E402


class Stream:
    """A streaming session of the engine: the words that have ended."""

    def __init__(self):
        self.samples = numpy.zeros(0, dtype=numpy.float32)

    def accept_audio(self, audio, sample_rate=None):
        self.samples = numpy.concatenate([self.samples, audio])

    def get_result(self):
        return base.TranscriptionResult(" ".join(word for word, _, end in words.spoken(self.samples) if end * 16000 < len(self.samples)))

    def finish(self):
        return base.TranscriptionResult(words.text(self.samples))

    def decode(self):
        pass

    input_finished = cancel = close = decode


class Engine(base.BaseTranscriptionEngine):
    supports_streaming = True

    def transcribe(self, audio, language=None, use_prompt=True):
        text = words.text(audio)
        return base.TranscriptionResult(f"{text} {language}" if text and language != "en" else text)

    def create_streaming_session(self, language=None, use_prompt=True):
        return Stream()


engine = types.ModuleType("words_engine")
engine.Engine = Engine
sys.modules["words_engine"] = engine
factory.ENGINE_CLASS_PATHS["words"] = ("words_engine", "Engine")

from RealtimeSTT_server import production_server  # noqa: E402

sys.exit(production_server.main([*sys.argv[1:], "--engine", "words", "--realtime-engine", "words", "--device", "cpu", "--supported-languages", "en,de"]))
