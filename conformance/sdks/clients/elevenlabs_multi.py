"""elevenlabs: multi-stream-input, for which the SDK has models, but no client: what is sent and received is made and read by its models."""

import base64
import json

from elevenlabs.types import AudioOutputMulti, CloseContext, FinalOutputMulti, FlushContext, InitializeConnectionMulti, SendTextMulti
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import report

PATH = "/v1/text-to-speech/voice/multi-stream-input?output_format=pcm_24000"


def main():
    options = report.arguments()
    told = report.Report("elevenlabs")
    said = [InitializeConnectionMulti(context_id="one", pronunciation_dictionary_locators=[
        {"pronunciation_dictionary_id": options.word, "version_id": "1"}])]
    said += [SendTextMulti(text=piece, context_id="one") for piece in report.TEXT]
    said += [FlushContext(context_id="one", flush=True), CloseContext(context_id="one", close_context=True)]
    try:
        with connect(options.url + PATH, additional_headers={"xi-api-key": options.key}) as socket:
            for message in said:
                socket.send(json.dumps(message.dict(exclude_none=True)))
            ended = False
            while not ended:
                fields = json.loads(socket.recv())
                if "error" in fields:
                    raise RuntimeError(fields["message"])
                ended = bool(fields.get("isFinal"))
                event = (FinalOutputMulti if ended else AudioOutputMulti).model_validate(fields)
                if event.context_id != "one":
                    told.reject("contextId", event.context_id)
                if ended:
                    told.add("end", "final", "", fields)
                else:
                    told.spoke(base64.b64decode(event.audio))
                    told.add("final", "audio", "".join(event.alignment.chars), fields)
    except ConnectionClosed as error:  # it has the error's text as its reason, and may be noticed first
        told.fail(RuntimeError(error.rcvd.reason))
    except Exception as error:  # its errors have no common parent
        told.fail(error, status=getattr(getattr(error, "response", None), "status_code", None))
    told.print()


if __name__ == "__main__":
    main()
