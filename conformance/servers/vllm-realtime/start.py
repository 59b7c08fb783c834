"""vLLM's /v1/realtime with its own code of the endpoint, but without torch: words.py instead of the engine and the model."""

import argparse
import os
import sys
import types

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy
import stubs
import uvicorn
import words
from fastapi import FastAPI

stubs.install(["torch", "vllm", "vllm.entrypoints.serve.engine.typing"], ["vllm." + name for name in [
    "entrypoints.generate.base.serving", "entrypoints.openai.models", "entrypoints.serve", "entrypoints.speech_to_text",
    "envs", "exceptions", "logger", "logging_utils", "utils",
]])

import vllm.engine.protocol
import vllm.model_executor.model_loader
import vllm.renderers.inputs.preprocess
from vllm.entrypoints.openai.models.protocol import BaseModelPath
from vllm.entrypoints.openai.models.serving import OpenAIServingModels
from vllm.entrypoints.speech_to_text.factories import init_speech_to_text_state, register_speech_to_text_api_routers
from vllm.entrypoints.speech_to_text.realtime.metrics import WebSocketMetricsMiddleware

STEP = 8000  # samples that the model takes at a time


class Model:
    """As Qwen3-ASR's and Voxtral's classes: turns a stream of audio into the prompts of one generation."""

    realtime_max_tokens = 64

    @classmethod
    async def buffer_realtime_audio(cls, audio_stream, input_stream, model_config):
        audio, taken = numpy.zeros(0, dtype=numpy.float32), 0
        async for chunk in audio_stream:
            audio = numpy.concatenate([audio, chunk])
            if len(audio) - taken >= STEP:
                taken = len(audio)
                yield audio, False
        yield audio, True


class Engine:
    """As an EngineClient: one output for each prompt, whose text is what the prompt adds."""

    model_config = types.SimpleNamespace(max_model_len=4096)
    renderer = types.SimpleNamespace()
    input_processor = vllm_config = None

    async def generate(self, prompt, sampling_params, request_id):
        said = 0
        async for one in prompt:
            audio, last = one.prompt
            found = [word for word, _, _ in words.spoken(audio)]
            new = found[said:] if last else found[said:-1]
            text = "".join((" " if said + i else "") + word for i, word in enumerate(new))
            said += len(new)
            output = types.SimpleNamespace(text=text, token_ids=list(range(len(new))))
            yield types.SimpleNamespace(outputs=[output], prompt_token_ids=[0])

    async def abort(self, request_id):
        pass


async def render(prompts):
    return prompts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()

    Engine.renderer.render_cmpl_async = render
    vllm.engine.protocol.StreamingInput = types.SimpleNamespace
    vllm.renderers.inputs.preprocess.parse_model_prompt = lambda config, prompt: prompt
    vllm.model_executor.model_loader.get_model_cls = lambda config: Model
    engine = Engine()
    app = FastAPI()
    app.add_middleware(WebSocketMetricsMiddleware)
    app.state.openai_serving_models = OpenAIServingModels(engine, [BaseModelPath(name="stub", model_path="stub")])
    register_speech_to_text_api_routers(app, ("realtime",))
    init_speech_to_text_state(engine, app.state, args, None, ("realtime",))
    uvicorn.run(app, host="127.0.0.1", port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
