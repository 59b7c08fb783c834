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
}


def main():
    options = report.arguments()
    told = report.Report("openai")
    audio = report.Audio(options.audio)
    client = OpenAI(api_key=options.key, base_url=options.url.replace("ws", "http", 1) + "/v1", max_retries=0)

    def listen(connection, until):
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

    try:
        with client.realtime.connect(model="gpt-realtime", extra_query={"intent": "transcription"}) as connection:
            listen(connection, "session.created")
            connection.session.update(session={"type": "transcription", "audio": {"input": {
                "format": {"type": "audio/pcm", "rate": 24000}, "turn_detection": None,
                "transcription": {"model": "gpt-4o-transcribe", "prompt": options.word}}}})
            listen(connection, "session.updated")
            for half in audio.halves():
                for chunk in report.paced(half):
                    connection.input_audio_buffer.append(audio=base64.b64encode(chunk).decode())
                connection.input_audio_buffer.commit()
                listen(connection, "conversation.item.input_audio_transcription.completed")
            connection.input_audio_buffer.clear()
            listen(connection, "input_audio_buffer.cleared")
        told.add("end", "closed by the client", None, {})
    except websockets.exceptions.InvalidStatus as error:
        told.fail(error, status=error.response.status_code, body=error.response.body.decode())
    except websockets.exceptions.ConnectionClosed as error:
        told.fail(error, code=error.rcvd and error.rcvd.code, reason=error.rcvd and error.rcvd.reason)
    except Exception as error:
        told.fail(error)
    told.print()


if __name__ == "__main__":
    main()
