"""A recogniser without a model: words that follow from the samples alone, so that audio of another session shows in any transcript.

Where words begin and end follows from the samples too, not from where the audio begins: audio that is sent again from some point gives the
same words after the first one. Silence has no words. What replaces a model below an engine's API uses this (see README.md). It runs with
Python 2.7 as well, for old servers.
"""

from __future__ import division

import hashlib

import numpy

WINDOW = 8  # samples that decide whether a word ends after them
EVERY = 4096  # samples of a word, on average: about four words a second at 16 kHz
SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]


def spoken(samples, rate=16000):
    """The words of samples, 16-bit integers or floats from -1 to 1, as (word, start, end) with times in seconds. The last may be unfinished."""
    samples = numpy.asarray(samples)
    if samples.dtype.kind == "f":
        samples = numpy.rint(samples * 32768).clip(-32768, 32767)
    samples = samples.astype(numpy.int64).reshape(-1)
    if len(samples) < WINDOW:
        return []
    # A sum with other factors for each place of the window, mixed: as good as random, and without state.
    hashed = numpy.zeros(len(samples) - WINDOW + 1, dtype=numpy.uint64)
    for i in range(WINDOW):
        hashed = hashed * numpy.uint64(0x9E3779B97F4A7C15) + samples[i:len(samples) - WINDOW + 1 + i].astype(numpy.uint64)
    hashed ^= hashed >> numpy.uint64(29)
    hashed *= numpy.uint64(0xBF58476D1CE4E5B9)
    hashed ^= hashed >> numpy.uint64(32)
    ends = [int(i) + WINDOW for i in numpy.flatnonzero(hashed % numpy.uint64(EVERY) == 0)] + [len(samples)]
    words, start = [], 0
    for end in ends:
        part = samples[start:end]
        if len(part) >= EVERY // 16 and numpy.abs(part).max() > 200:
            digest = bytearray(hashlib.sha256(part.astype("<i2").tobytes()).digest()[:3])
            words.append(("".join(SYLLABLES[b % len(SYLLABLES)] for b in digest), start / rate, end / rate))
        start = end
    return words


def text(samples, rate=16000):
    """The words of samples, as spoken() has them, in one string."""
    return " ".join(word for word, _, _ in spoken(samples, rate))
