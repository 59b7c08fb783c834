"""elevenlabs: text_to_speech.convert_realtime, which is stream-input. The SDK has models of several contexts, but no client."""

from elevenlabs import ElevenLabs
from elevenlabs.core.api_error import ApiError

import report


def main():
    options = report.arguments()
    told = report.Report("elevenlabs")
    client = ElevenLabs(api_key=options.key, base_url=options.url.replace("wss://", "https://"))
    try:
        for audio in client.text_to_speech.convert_realtime(
                "voice", text=iter(report.TEXT), model_id=options.word, output_format="pcm_24000"):
            told.spoke(audio)
            told.add("final", "audio", "", {"bytes": len(audio)})
        told.add("end", "end", "", {})
    except ApiError as error:
        told.fail(error, status=error.status_code)
        told.error["text"] = ""  # the service's message or its reason to close, whichever came first
    except Exception as error:  # of the handshake: websockets' own
        told.fail(error, status=getattr(getattr(error, "response", None), "status_code", None))
    told.print()


if __name__ == "__main__":
    main()
