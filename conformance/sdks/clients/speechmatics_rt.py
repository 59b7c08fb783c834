"""speechmatics-rt: AsyncClient. (The file is not called after its package, which it would hide.)"""

import asyncio
import logging

from speechmatics.rt import AsyncClient, AudioEncoding, AudioFormat, ServerMessageType, TranscriptionConfig, TranscriptResult

import report

ROLES = {
    ServerMessageType.RECOGNITION_STARTED: "start",
    ServerMessageType.ADD_PARTIAL_TRANSCRIPT: "partial",
    ServerMessageType.ADD_TRANSCRIPT: "final",
    ServerMessageType.END_OF_TRANSCRIPT: "end",
}


async def main():
    options = report.arguments()
    told = report.Report("speechmatics-rt")
    audio = report.Audio(options.audio)
    logging.disable(logging.CRITICAL)

    def listen(kind):
        def on_message(message):
            text = None
            if "Transcript" in kind and kind != ServerMessageType.END_OF_TRANSCRIPT:
                try:
                    text = TranscriptResult.from_message(message).metadata.transcript
                except KeyError as error:
                    told.reject(kind.value, "%s is missing" % error)
            told.add(ROLES.get(kind, "other"), kind.value, text, message)
        return on_message

    async with AsyncClient(api_key=options.key, url=options.url + "/v2") as client:
        for kind in ServerMessageType:
            client.on(kind, listen(kind))
        try:
            await client.start_session(
                transcription_config=TranscriptionConfig(
                    language="en", enable_partials=True, additional_vocab=[{"content": options.word}]),
                audio_format=AudioFormat(encoding=AudioEncoding.PCM_S16LE, sample_rate=audio.rate))
            first, second = audio.halves()
            for half in first, second:
                for chunk in half:
                    await client.send_audio(chunk)
                    await asyncio.sleep(report.PACE)
                if half is first:
                    await client.force_end_of_utterance()
            await client.stop_session()
        except Exception as error:  # each of its errors is a class of its own, and none has a common parent
            told.fail(error)
    told.print()


if __name__ == "__main__":
    asyncio.run(main())
