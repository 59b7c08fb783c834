"""openai, realtime: a transcription session."""

import base64
import json
import warnings

import pydantic
import websockets
from openai import OpenAI

import report

ROLES = {
    "session.created": "start",
    "conversation.item.input_audio_transcription.delta": "partial",
    "conversation.item.input_audio_transcription.completed": "final",
    "session.input_transcript.delta": "partial",
    "session.output_transcript.delta": "final",
}


def run(connect, hold):
    """Connect with connect(client), and hold a session with hold(connection, audio, word, listen)."""
    options = report.arguments()
    told = report.Report("openai")
    client = OpenAI(api_key=options.key, base_url=options.url.replace("ws", "http", 1) + "/v1", max_retries=0)

    try:
        with connect(client) as connection:
            def listen(until):
                """Receive events up to and with one of the type until."""
                while True:
                    raw = connection.recv_bytes()
                    event = connection.parse_event(raw)
                    try:  # the SDK takes events as they come; whether they are as it declares them is checked here
                        pydantic.TypeAdapter(type(event)).validate_python(json.loads(raw))
                    except pydantic.ValidationError as error:
                        told.reject(type(event).__name__, error)
                    text = getattr(event, "delta", None) or getattr(event, "transcript", None)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        told.add(ROLES.get(event.type, "other"), event.type, text, event.model_dump(mode="json"))
                    if event.type == until:
                        return

            hold(connection, report.Audio(options.audio), options.word, listen)
        told.add("end", "closed by the client", None, {})
    except websockets.exceptions.InvalidStatus as error:
        told.fail(error, status=error.response.status_code, body=error.response.body.decode())
    except websockets.exceptions.ConnectionClosed as error:
        told.fail(error, code=error.rcvd and error.rcvd.code, reason=error.rcvd and error.rcvd.reason)
    except Exception as error:
        told.fail(error)
    told.print()


def encoded(chunks):
    """The chunks as events have them, at the pace of a run."""
    for chunk in report.paced(chunks):
        yield base64.b64encode(chunk).decode()


def transcribe(connection, audio, word, listen):
    listen("session.created")
    connection.session.update(session={"type": "transcription", "audio": {"input": {
        "format": {"type": "audio/pcm", "rate": 24000}, "turn_detection": None,
        "transcription": {"model": "gpt-4o-transcribe", "prompt": word}}}})
    listen("session.updated")
    for half in audio.halves():
        for chunk in encoded(half):
            connection.input_audio_buffer.append(audio=chunk)
        connection.input_audio_buffer.commit()
        listen("conversation.item.input_audio_transcription.completed")
    connection.input_audio_buffer.clear()
    listen("input_audio_buffer.cleared")


if __name__ == "__main__":
    run(lambda client: client.realtime.connect(model="gpt-realtime", extra_query={"intent": "transcription"}), transcribe)
