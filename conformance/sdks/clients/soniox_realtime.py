"""soniox: realtime.stt."""

import threading

from soniox import SonioxClient
from soniox.types import RealtimeSTTConfig, StructuredContext

import report


def main():
    options = report.arguments()
    told = report.Report("soniox")
    audio = report.Audio(options.audio)
    client = SonioxClient(api_key=options.key, websocket_base_url=options.url + "/transcribe-websocket")
    config = RealtimeSTTConfig(
        model="stt-rt-v5", audio_format="pcm_s16le", sample_rate=audio.rate, num_channels=1,
        context=StructuredContext(terms=[options.word]))

    def speak(session):
        first, second = audio.halves()
        for half in first, second:
            for chunk in report.paced(half):
                session.send_byte_chunk(chunk)
            if half is first:
                session.finalize()
        session.finish()

    try:
        with client.realtime.stt.connect(config=config) as session:
            speaker = threading.Thread(target=speak, args=[session])
            speaker.start()
            for event in session.receive_events():
                words = [token for token in event.tokens if not token.text.startswith("<")]
                final = [token.text for token in words if token.is_final]
                role = "end" if event.finished else "final" if final else "partial" if words else "other"
                told.add(role, "event", "".join(final or [token.text for token in words]), event.model_dump(mode="json"))
            speaker.join()
    except Exception as error:  # its errors have no common parent
        told.fail(error, status=getattr(getattr(error.__cause__, "response", None), "status_code", None))
    told.print()


if __name__ == "__main__":
    main()
