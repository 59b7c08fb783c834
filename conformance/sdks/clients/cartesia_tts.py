"""cartesia: tts.websocket_connect, with a context."""

from cartesia import Cartesia
from cartesia.types.websocket_response import Chunk, Done, Timestamps

import report

MODELS = {"chunk": Chunk, "done": Done, "timestamps": Timestamps}


def main():
    options = report.arguments()
    told = report.Report("cartesia")
    client = Cartesia(api_key=options.key, websocket_base_url=options.url)
    try:
        with client.tts.websocket_connect() as connection:
            context = connection.context(
                model_id="sonic-3", voice={"mode": "id", "id": "6ccbfb76-1fc6-48f7-b71d-91ac6298247b"},
                output_format={"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000},
                add_timestamps=True, pronunciation_dict_id=options.word)
            for piece in report.TEXT:
                context.push(piece)
            context.no_more_inputs()
            for event in context.receive():
                fields = event.model_dump(mode="json")
                try:
                    MODELS[event.type].model_validate(fields)
                except Exception as error:  # KeyError, or pydantic's
                    told.reject(event.type, error)
                if event.type == "error":
                    raise RuntimeError(event.error)
                words = event.word_timestamps.words if event.type == "timestamps" else []
                if event.type == "chunk":
                    told.spoke(event.audio)
                told.add({"timestamps": "final", "done": "end"}.get(event.type, "partial"), event.type, " ".join(words), fields)
    except Exception as error:  # its errors have no common parent
        told.fail(error, status=getattr(getattr(error, "response", None), "status_code", None))
    told.print()


if __name__ == "__main__":
    main()
