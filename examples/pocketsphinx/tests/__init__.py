"""Run them with the requirements installed, in the folder above: python -m unittest."""

import pathlib
import wave

CLIPS = pathlib.Path(__file__).parents[2] / "stt" / "clips"


def clip(name):
    """Return the audio of a clip: 16 kHz, 16 bits, mono."""
    with wave.open(str(CLIPS / f"{name}.wav")) as file:
        return file.readframes(file.getnframes())


def pieces(audio, size=6400):
    """Cut audio into messages, of 0.2 s at 16 kHz."""
    return [audio[at : at + size] for at in range(0, len(audio), size)]
