"""Runs WhisperLive's server with words instead of a model."""

import argparse
import pathlib
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import stubs

stubs.install(["torch"])

import torch

torch.cuda = types.SimpleNamespace(is_available=lambda: False)

from whisper_live.backend import faster_whisper_backend
from whisper_live.server import TranscriptionServer

import whisper_model

faster_whisper_backend.WhisperModel = whisper_model.WhisperModel

flags = argparse.ArgumentParser()
flags.add_argument("--port", type=int, required=True)
flags.add_argument("--slots", type=int, default=4)
flags.add_argument("--batch", action="store_true", help="one model for all, and at most five new clients a second")
flags = flags.parse_args()

TranscriptionServer().run("127.0.0.1", flags.port, backend="faster_whisper", max_clients=flags.slots, batch_enabled=flags.batch)
