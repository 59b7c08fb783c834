"""assemblyai, streaming.v3."""

import logging
import threading

from assemblyai.streaming.v3 import (
    Encoding,
    RealTimeEvents,
    RealTimeParameters,
    RealTimeTranscriber,
    RealTimeTranscriberOptions,
)

import report


def main():
    options = report.arguments()
    told = report.Report("assemblyai")
    audio = report.Audio(options.audio)
    # Its connect timeout, one second, is meant for a machine that does nothing else.
    client = RealTimeTranscriber(RealTimeTranscriberOptions(
        api_host=options.url, api_key=options.key, connect_timeout=10))
    # Events that do not fit its models end its reader with an exception.
    threading.excepthook = lambda gone: told.reject(gone.thread.name, gone.exc_value)
    logging.getLogger("assemblyai").setLevel(logging.CRITICAL)

    def listen(role):
        def on_event(_, event):
            kind = role if role != "turn" else "final" if event.end_of_turn else "partial"
            told.add(kind, event.type, getattr(event, "transcript", None), event.model_dump(mode="json"))
        return on_event

    refused = threading.Event()

    def on_error(_, error):
        told.fail(error, code=error.code)
        refused.set()

    client.on(RealTimeEvents.Begin, listen("start"))
    client.on(RealTimeEvents.Turn, listen("turn"))
    client.on(RealTimeEvents.Termination, listen("end"))
    client.on(RealTimeEvents.Error, on_error)
    client.connect(RealTimeParameters(sample_rate=audio.rate, encoding=Encoding.pcm_s16le, keyterms_prompt=[options.word]))
    if not refused.is_set():
        first, second = audio.halves()
        client.stream(report.paced(first))
        client.force_endpoint()
        client.keep_alive()
        client.stream(report.paced(second))
        client.disconnect(terminate=True)
    told.print()


if __name__ == "__main__":
    main()
