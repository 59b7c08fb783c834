"""Speech recognition with PocketSphinx, in utterances.

This module knows nothing of WebSockets. A Recogniser belongs to one session and is used by one thread at a time.
"""

import pocketsphinx

# The rates, in samples per second, at which PocketSphinx's voice activity detection is exact and its acoustic model
# (trained up to 6.8 kHz) finds all the frequencies that it needs.
SAMPLE_RATES = (16000, 32000, 48000)

PAUSE = 0.5  # seconds of silence that end an utterance
LONGEST_UTTERANCE = 20  # seconds of speech that end one without a pause: the decoder's memory grows with it
FRAME = 100  # the decoder's frames per second

# What the decoder puts among the words for the beginning, the end and pauses.
NOT_WORDS = {"<s>", "</s>", "<sil>", "(NULL)"}


class Decoders:
    """PocketSphinx decoders that are free, for the next sessions: each takes 0.3 s to load, and 100 MB."""

    def __init__(self):
        self._free = []

    def take(self, sample_rate):
        """Return a decoder in its initial state.

        A decoder adapts to what it hears: the cepstral mean of one utterance is the starting point for the next, so
        that the same audio has another transcript the second time. Building the features anew goes back to the mean
        that the model comes with. (The tests show both.)
        """
        decoder = self._free.pop() if self._free else pocketsphinx.Decoder(loglevel="FATAL")
        config = decoder.config
        config["samprate"] = sample_rate
        decoder.reinit_feat(config)
        return decoder

    def give_back(self, decoder):
        self._free.append(decoder)


class Recogniser:
    """Finds utterances in a session's audio and puts them into words.

    Results depend on nothing but this session's audio since its beginning or the last finish().
    """

    def __init__(self, decoders, sample_rate):
        self._decoders = decoders
        self._sample_rate = sample_rate
        self._decoder = None  # borrowed while there is audio, so that an idle session holds none
        self._forget()

    def _forget(self):
        self._endpointer = pocketsphinx.Endpointer(window=PAUSE, sample_rate=self._sample_rate)
        self._rest = b""  # audio that is shorter than a frame of the endpointer
        self._speaking = False  # the decoder is inside an utterance
        self._start = 0.0  # of the utterance, in seconds since the audio began
        self._length = 0  # of the utterance, in bytes
        self._before = 0  # bytes of utterances that were cut off before it, since the last pause

    def accept(self, audio):
        """Hear audio (16 bits, little-endian, mono), and return the words of the utterances that ended in it."""
        if self._decoder is None:
            self._decoder = self._decoders.take(self._sample_rate)
        audio = self._rest + audio
        size = self._endpointer.frame_bytes
        whole = len(audio) - len(audio) % size
        self._rest = audio[whole:]
        words = []
        for at in range(0, whole, size):
            speech = self._endpointer.process(audio[at : at + size])
            if speech is not None:
                self._hear(speech)
                if not self._endpointer.in_speech:
                    words += self._end_utterance()
                    self._before = 0
                elif self._seconds(self._length) >= LONGEST_UTTERANCE:
                    words += self._end_utterance()
                    self._before += self._length
        return words

    def partial(self):
        """Return the text of the utterance under way, which may still change."""
        hypothesis = self._decoder.hyp() if self._speaking else None
        return hypothesis.hypstr if hypothesis else ""

    def finish(self):
        """End the audio, return the words that were not returned yet, and begin anew, as if nothing had been heard."""
        words = []
        if self._speaking:
            last = self._endpointer.end_stream(self._rest[: len(self._rest) & ~1])
            if last:
                self._hear(last)
            words = self._end_utterance()
        self.close()
        return words

    def close(self):
        """Give up what is held, and what was heard."""
        if self._decoder is not None:
            if self._speaking:
                self._decoder.end_utt()
            self._decoders.give_back(self._decoder)
            self._decoder = None
        self._forget()

    def _hear(self, speech):
        if not self._speaking:
            self._decoder.start_utt()
            self._speaking = True
            self._start = self._endpointer.speech_start + self._seconds(self._before)
            self._length = 0
        self._decoder.process_raw(speech)
        self._length += len(speech)

    def _seconds(self, size):
        return size / 2 / self._sample_rate

    def _end_utterance(self):
        self._decoder.end_utt()
        self._speaking = False
        if self._decoder.hyp() is None:
            return []
        return [self._word(s) for s in self._decoder.seg() if s.word not in NOT_WORDS and s.word[0] != "["]

    def _word(self, segment):
        return {
            "conf": round(min(segment.prob, 1.0), 6),
            "end": round(self._start + (segment.end_frame + 1) / FRAME, 2),
            "start": round(self._start + segment.start_frame / FRAME, 2),
            "word": segment.word.partition("(")[0],  # without the number of a variant, as in "the(2)"
        }
