"""deepgram-sdk, live audio: listen.v1."""

import json
import threading

import pydantic
import websockets
from deepgram import DeepgramClient
from deepgram.core.api_error import ApiError
from deepgram.core.events import EventType
from deepgram.environment import DeepgramClientEnvironment

import report


def role(event):
    if event.type == "Results":
        return "final" if event.is_final else "partial"
    return "end" if event.type == "Metadata" else "other"


def main():
    options = report.arguments()
    told = report.Report("deepgram-sdk")
    audio = report.Audio(options.audio)
    client = DeepgramClient(api_key=options.key, environment=DeepgramClientEnvironment(
        base=options.url.replace("ws", "http", 1), production=options.url, agent=options.url,
        agent_rest=options.url.replace("ws", "http", 1)))

    def on_message(event):
        fields = json.loads(event.json())
        try:  # the SDK takes events as they come; whether they are as it declares them is checked here
            type(event).model_validate(fields)
        except pydantic.ValidationError as error:
            told.reject(type(event).__name__, error)
        if type(event).__name__ != "ListenV1" + str(getattr(event, "type", None)):
            told.reject(type(event).__name__, "the SDK took an event of type %r for this" % getattr(event, "type", None))
            return
        text = event.channel.alternatives[0].transcript if event.type == "Results" else None
        told.add(role(event), event.type, text, fields)

    try:
        with client.listen.v1.connect(model="nova-3", encoding="linear16", sample_rate=str(audio.rate),
                                      interim_results="true", keyterm=[options.word]) as socket:
            socket.on(EventType.MESSAGE, on_message)
            socket.on(EventType.ERROR, told.fail)
            listener = threading.Thread(target=socket.start_listening)
            listener.start()
            first, second = audio.halves()
            for chunk in report.paced(first):
                socket.send_media(chunk)
            socket.send_finalize()
            socket.send_keep_alive()
            for chunk in report.paced(second):
                socket.send_media(chunk)
            socket.send_close_stream()
            listener.join()
    except ApiError as error:
        told.fail(error, status=error.status_code, body=error.body)
    except websockets.exceptions.InvalidStatus as error:  # what reaches the program, as long as websockets knows InvalidStatusCode
        told.fail(error, status=error.response.status_code, body=error.response.body.decode())
    except Exception as error:
        told.fail(error)
    told.print()


if __name__ == "__main__":
    main()
