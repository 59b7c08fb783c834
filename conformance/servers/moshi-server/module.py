"""A model for moshi-server's Python module: words.py hears what each slot of the batch gets. A word comes as its syllables and an end, a token
for each frame of 80 ms, so it hears each eighth sample: fewer words than at 24 kHz."""

import numpy

import words

RATE = 3000
END, FIRST = 3, 4  # tokens: of silence, and the first of a syllable
ACTIVE, MARKED = 1, 2  # flags
NO_DATA, AUDIO, RESET = 0, -1, -2  # updates; others are markers


def tokenizer():
    """A model of SentencePiece with the syllables as pieces, in the encoding of Protocol Buffers."""
    def piece(text, kind):
        fields = b"\x0a" + bytes([len(text)]) + text.encode() + b"\x15\x00\x00\x00\x00" + b"\x18" + bytes([kind])
        return b"\x0a" + bytes([len(fields)]) + fields

    special = [piece("<unk>", 2)] + [piece(name, 3) for name in ("<s>", "</s>", "<pad>")]
    return b"".join(special + [piece(syllable, 1) for syllable in words.SYLLABLES])


class Slot:
    def __init__(self):
        self.samples, self.tokens = numpy.zeros(0), []

    def hear(self, frame):
        self.samples = numpy.append(self.samples, frame[::8])
        heard = 0
        for word, _, end in words.spoken(self.samples, RATE):
            if round(end * RATE) < len(self.samples):  # it has ended
                heard = round(end * RATE)
                self.tokens += [FIRST + words.SYLLABLES.index(word[i:i + 2]) for i in range(0, len(word), 2)] + [END]
        self.samples = self.samples[heard:]
        if numpy.abs(frame).max() == 0:
            self.samples = self.samples[:0]


class Recogniser:
    def __init__(self, slots):
        self.slots = [Slot() for _ in range(slots)]

    def step(self, audio, flags, tokens, heads, updates):
        for i, update in enumerate(updates):
            tokens[i] = END
            if update == RESET:
                self.slots[i] = Slot()
            elif update != NO_DATA:
                if update == AUDIO:
                    self.slots[i].hear(audio.reshape(len(updates), -1)[i])
                if self.slots[i].tokens:
                    tokens[i] = self.slots[i].tokens.pop(0)
            flags[i] = 0 if update == NO_DATA else MARKED if update > 0 else ACTIVE


def init(slots, settings):
    return Recogniser(slots)
