"""faster-whisper's WhisperModel without a model: each word of words.py is a segment.

A server cuts its audio at the end of a segment, and clients get that time rounded, in hundredths of a second from some. So a word ends at a
hundredth, before the samples that decide where it ends: what is cut there has the same words as the whole.
"""

from faster_whisper.transcribe import Segment, TranscriptionInfo, Word

import words

RATE = 16000
GRID = RATE // 100
BEHIND = 1e-4  # samples: seconds that become samples again are rounded down


def place(seconds):
    """The time of a word's edge, as the model has it."""
    return (max(0, round(seconds * RATE) - words.WINDOW) // GRID * GRID + BEHIND) / RATE


class WhisperModel:
    def __init__(self, *_, **__):
        pass

    @property
    def supported_languages(self):
        return ["en"]

    def transcribe(self, audio, language=None, **_):
        """The segments of audio, and what faster-whisper says of it."""
        segments = []
        for word, start, end in words.spoken(audio, RATE):
            start, end, word = place(start), place(end), " " + word
            segments.append(Segment(
                id=len(segments) + 1, seek=0, start=start, end=end, text=word, tokens=[], avg_logprob=0.0, compression_ratio=1.0, no_speech_prob=0.0,
                words=[Word(start=start, end=end, word=word, probability=0.9)], temperature=0.0,
            ))
        duration = len(audio) / RATE
        return segments, TranscriptionInfo(
            language=language or "en", language_probability=1.0, duration=duration, duration_after_vad=duration,
            all_language_probs=None, transcription_options=None, vad_options=None,
        )
