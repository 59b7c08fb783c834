"""sglang-omni's /v1/realtime?intent=transcription with its own code of the endpoint and of Qwen3-ASR's segments, but without torch: words.py
instead of the model, and loudness instead of the voice detector."""

import argparse
import io
import os
import sys
import types
import wave

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy
import stubs
import uvicorn
import words
from fastapi import FastAPI

stubs.install(["av", "sglang_omni", "soundfile", "torch"], ["sglang_omni." + name for name in [
    "audio.vad", "models.qwen3_asr.streaming", "serve.openai_api", "serve.realtime.audio_buffer", "serve.realtime.events", "serve.realtime.manager",
    "serve.realtime.transcription_session", "serve.speech_to_text",
]])

import sglang_omni.audio.smart_turn
import sglang_omni.client
import sglang_omni.serve.transcription_chunking
import sglang_omni.serve.realtime as realtime


class Loudness:
    """As Silero's model: the probability that a frame is speech."""

    def predict(self, frame, sample_rate):
        return float(numpy.abs(frame).max() > 0.02)

    def reset(self):
        pass


class Client:
    """As sglang_omni's: the words of a request's audio."""

    async def completion(self, request, request_id):
        with wave.open(io.BytesIO(request.prompt["audio_bytes"])) as audio:
            samples = numpy.frombuffer(audio.readframes(audio.getnframes()), dtype="<i2")
        return types.SimpleNamespace(text=words.text(samples), language="English")

    async def abort(self, request_id):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()

    for name in ("GenerateRequest", "SamplingParams"):
        setattr(sglang_omni.client, name, types.SimpleNamespace)
    sglang_omni.serve.transcription_chunking.SILENT_CHUNK_PEAK_THRESHOLD = 1e-3
    sglang_omni.serve.transcription_chunking.join_transcript_parts = lambda parts: " ".join(p for p in parts if p)

    from sglang_omni.audio import vad
    from sglang_omni.models.qwen3_asr.streaming import Qwen3ASRStreamingStrategy
    from sglang_omni.serve.openai_api import register_realtime
    from sglang_omni.serve.realtime.manager import RealtimeSessionManager

    realtime.RealtimeSessionManager = RealtimeSessionManager
    vad.SileroSpeechModel = Loudness
    app = FastAPI()
    app.state.client, app.state.model_name = Client(), "stub"
    app.state.realtime_deployment, app.state.supports_realtime_audio_output = None, False
    # As Qwen3ASRPipelineConfig has it.
    app.state.realtime_transcription = types.SimpleNamespace(
        strategy_cls=Qwen3ASRStreamingStrategy, decode_interval_ms=2000, server_vad=True, max_segment_s=30.0)
    register_realtime(app)
    uvicorn.run(app, host="127.0.0.1", port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
