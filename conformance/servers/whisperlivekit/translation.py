"""nllw, WhisperLiveKit's translator, without a model: a word's translation is the word spelled backwards. The last one may still change."""

import sys
import types

from whisperlivekit.timed_objects import TimedText


class OnlineTranslation:
    def __init__(self, *_):
        self.tokens = []

    def insert_tokens(self, tokens):
        self.tokens.extend(tokens)

    def insert_silence(self, _):
        pass

    def process(self):
        return self._translate(1)

    def validate_buffer_and_reset(self):
        return self._translate(0)

    def _translate(self, kept):
        """The translation of all words but the last few, and that of these, which are kept."""
        said, self.tokens = self.tokens[:len(self.tokens) - kept], self.tokens[len(self.tokens) - kept:]
        return self._text(said), self._text(self.tokens)

    def _text(self, tokens):
        if not tokens:
            return TimedText()
        return TimedText(start=tokens[0].start, end=tokens[-1].end, text=" ".join(t.text.strip()[::-1] for t in tokens))


module = types.ModuleType("nllw")
module.load_model, module.OnlineTranslation = lambda *_, **__: object(), OnlineTranslation
sys.modules["nllw"] = module
