"""Runs WhisperLiveKit's server with words instead of models."""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import stubs

stubs.install(["torch", "numba", "librosa"])

import faster_whisper

import whisper_model

faster_whisper.WhisperModel = whisper_model.WhisperModel

flags = argparse.ArgumentParser()
flags.add_argument("--port", required=True)
flags, others = flags.parse_known_args()

# No voice detector, whose network needs PyTorch, and no recording to warm up with, which would be loaded.
sys.argv[1:] = ["--host", "127.0.0.1", "--port", flags.port, "--backend", "faster-whisper", "--backend-policy", "localagreement", "--language", "en",
                "--pcm-input", "--no-vac", "--warmup-file", "", *others]
from whisperlivekit.basic_server import main

main()
