"""Runs Speaches, from the checkout in SOURCE, with words instead of a Whisper model. Its voice detector is the real one."""

import argparse
import os
import pathlib
import sys

flags = argparse.ArgumentParser()
flags.add_argument("--port", type=int, required=True)
flags = flags.parse_args()

MODEL = "words/words"  # as clients name it
folder = pathlib.Path(sys.prefix) / "models"  # with the environment
model = folder / "hub" / ("models--" + MODEL.replace("/", "--"))
(model / "refs").mkdir(parents=True, exist_ok=True)
(model / "refs/main").write_text("0")
(model / "snapshots/0").mkdir(parents=True, exist_ok=True)
(model / "snapshots/0/README.md").write_text("---\nlibrary_name: ctranslate2\npipeline_tag: automatic-speech-recognition\n---\n")
os.environ |= {"HF_HOME": str(folder), "HF_HUB_OFFLINE": "1", "UVICORN_HOST": "127.0.0.1", "UVICORN_PORT": str(flags.port),
               "ENABLE_UI": "false", "LOG_LEVEL": "info",
               "LOOPBACK_HOST_URL": f"http://127.0.0.1:{flags.port}"}  # it cannot call its own routes without, with the FastAPI that it names

source = pathlib.Path(os.environ["SOURCE"])
os.chdir(source)
sys.path[:0] = [str(source / "src"), str(pathlib.Path(__file__).parent.parent)]

import stubs

stubs.install(["aiortc", "kokoro_onnx", "onnx_asr", "piper", "pyannote", "torch"])

import uvicorn
from speaches.executors import whisper
from speaches.main import create_app

import whisper_model

whisper.WhisperModel = whisper_model.WhisperModel
whisper.BatchedInferencePipeline = lambda model: model

uvicorn.run(create_app(), host="127.0.0.1", port=flags.port)
