"""vLLM-Omni's /v1/realtime?duplex=1 with its own code of the endpoint and the messages, but without torch, an engine and a model: words.py hears
what the client commits, and says it back."""

import argparse
import asyncio
import os
import sys
import types
import uuid

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy
import stubs
import uvicorn
import words
from fastapi import FastAPI, WebSocket

stubs.install(["torch", "vllm", "vllm_omni"], ["vllm_omni." + name for name in [
    "engine.duplex.commands", "engine.duplex.config", "engine.duplex.events", "engine.duplex.messages", "engine.duplex.realtime_commands",
    "engine.duplex.turn_detection", "entrypoints.duplex.realtime_input", "entrypoints.duplex.serving", "entrypoints.duplex.session_attachment",
    "entrypoints.duplex.websocket", "entrypoints.duplex_omni", "protocol",
]])

import msgspec
import vllm_omni.engine.messages

vllm_omni.engine.messages.EngineQueueMessage = msgspec.Struct

from vllm_omni.engine.duplex import commands, config, events, messages
from vllm_omni.entrypoints.duplex.serving import OmniDuplexSessionHandler
from vllm_omni.entrypoints.duplex_omni import DuplexOmni


class Engine:
    """As DuplexOmniEngine: admits sessions, takes their commands and delivers their events. Its capacity is that of a deployment."""

    duplex_session_config = types.SimpleNamespace(resume_replay_ttl_s=30.0, resume_replay_max_bytes_per_session=1 << 20)

    def __init__(self, limit):
        self.limit, self.audio, self.omni = limit, {}, None

    async def open_session_async(self, session_id, session_config, timeout):
        if len(self.audio) >= self.limit:
            raise messages.DuplexSessionError(f"duplex_session_capacity_exhausted: limit={self.limit}", code="resource_exhausted")
        self.audio[session_id] = b""
        session = {"id": session_id, "object": "realtime.session", "model": "stub"}
        asyncio.get_running_loop().call_soon(self.deliver, session_id, events.SessionCreated(session_id=session_id, session=session))
        return types.SimpleNamespace(capabilities=config.DuplexCapabilities(), public_session=session, lease_generation=1)

    async def close_session_async(self, session_id, reason, timeout):
        if self.audio.pop(session_id, None) is not None:
            self.deliver(session_id, events.SessionClosed(session_id=session_id, reason=reason))

    async def submit_command_async(self, session_id, command):
        match command:
            case commands.AppendAudio():
                self.audio[session_id] += command.audio
            case commands.ClearInput():
                self.audio[session_id] = b""
                self.deliver(session_id, events.InputCleared(session_id=session_id))
            case commands.Commit():
                self.answer(session_id)
            case commands.CloseSession():
                await self.close_session_async(session_id, "client_close", None)

    def answer(self, session_id):
        text = words.text(numpy.frombuffer(self.audio[session_id], dtype="<i2"))
        self.audio[session_id] = b""
        item, response = "item_" + uuid.uuid4().hex, "resp_" + uuid.uuid4().hex
        about = {"session_id": session_id, "response_id": response}
        for event in (
            events.InputCommitted(session_id=session_id, item_id=item),
            events.InputTranscriptionCompleted(session_id=session_id, item_id=item, transcript=text),
            events.ResponseCreated(**about, response={"id": response, "status": "in_progress"}),
            events.TranscriptDelta(**about, item_id=item, delta=text),
            events.TranscriptDone(**about, item_id=item, transcript=text),
            events.ResponseDone(**about, response={"id": response, "status": "completed"}),
        ):
            self.deliver(session_id, event)

    def deliver(self, session_id, event):
        self.omni.get_session(session_id)._deliver(event)


class Omni(DuplexOmni):
    def __init__(self, engine):
        self.engine, self._handles, self.model = engine, {}, "stub"
        engine.omni = self

    def _final_output_handler(self):
        pass

    async def close_session(self, session_id, *, reason, timeout):
        await self.engine.close_session_async(session_id, reason, timeout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--sessions", type=int, default=4)
    args = parser.parse_args()

    app = FastAPI()
    handler = OmniDuplexSessionHandler(duplex_omni=Omni(Engine(args.sessions)))

    @app.websocket("/v1/realtime")
    async def realtime(websocket: WebSocket):
        await handler.handle_realtime_session(websocket)

    uvicorn.run(app, host="127.0.0.1", port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
