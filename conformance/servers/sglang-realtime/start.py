"""sglang's /v1/realtime with its own code of the endpoint and of Qwen3-ASR's chunks, but without torch: words.py instead of the model."""

import argparse
import io
import os
import sys
import types
import uuid

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import soundfile
import stubs
import uvicorn
import words
from fastapi import FastAPI, WebSocket

stubs.install(["sglang", "torch", "torchaudio", "transformers"], ["sglang.srt.entrypoints.openai." + name for name in [
    "protocol", "realtime", "serving_base", "serving_transcription", "streaming_asr", "transcription_adapters",
]])

import sglang.srt.managers.io_struct
import sglang.srt.multimodal.processors.qwen3_asr
import sglang.srt.runtime_context
import sglang.srt.utils

RATE = 16000


class TokenizerManager:
    """As sglang's: answers a request with the whole text of its audio, but for what its prompt has already."""

    model_config = types.SimpleNamespace(hf_config=types.SimpleNamespace(architectures=["Qwen3ASRForConditionalGeneration"]))
    served_model_name = "stub"
    server_args = None

    async def generate_request(self, request, raw_request=None):
        samples, _ = soundfile.read(io.BytesIO(request.audio_data), dtype="int16")
        found = words.text(samples, RATE)
        yield {"text": found[len(request.text):] if found.startswith(request.text) else found}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--sessions", type=int, default=32)
    args = parser.parse_args()

    serving = types.SimpleNamespace(asr_max_buffer_seconds=60, asr_max_concurrent_sessions=args.sessions)
    sglang.srt.runtime_context.get_serving = lambda: serving
    sglang.srt.managers.io_struct.GenerateReqInput = types.SimpleNamespace
    sglang.srt.multimodal.processors.qwen3_asr.DEFAULT_ASR_PROMPT = ""
    sglang.srt.utils.random_uuid = lambda: uuid.uuid4().hex

    from sglang.srt.entrypoints.openai.serving_transcription import OpenAIServingTranscription

    transcription = OpenAIServingTranscription(TokenizerManager())
    app = FastAPI()

    @app.websocket("/v1/realtime")
    async def realtime(websocket: WebSocket):
        await transcription.handle_websocket(websocket)

    uvicorn.run(app, host="127.0.0.1", port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
