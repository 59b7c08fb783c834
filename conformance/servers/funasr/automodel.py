"""FunASR's AutoModel and AutoModelVLLM without models: words that follow from the samples (words.py), voice detection by loudness.

What they keep, they keep where the real ones do: in the cache that a server passes with each call. Both of FunASR's servers run over this.
"""

import os
import sys
import types

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import words  # noqa: E402

RATE = 16000
FRAME = RATE // 100  # samples that voice detection looks at


def heard(given):
    """The samples of what a server passes: bytes of 16-bit integers, or floats."""
    return numpy.frombuffer(given, dtype="<i2") if isinstance(given, bytes) else numpy.rint(numpy.asarray(given) * 32768).astype(numpy.int16)


def biased(text, hotwords):
    """A text as a model that knows hot words has it: a session's hot words show in its results."""
    return f"{text} {hotwords if isinstance(hotwords, str) else ' '.join(hotwords)}" if text and hotwords else text


class AutoModel:
    def __init__(self, model, **_):
        kinds = {"punc": self.punctuate, "vad": self.voice, "campplus": self.speaker, "online": self.streaming}
        self.kind = next((kinds[k] for k in kinds if k in model), self.offline)

    def generate(self, input, **settings):  # noqa: A002 (the engine's own name)
        return [self.kind(input[0] if isinstance(input, list) else input, **settings)]

    def offline(self, input, hotword="", **_):  # noqa: A002
        found = words.spoken(heard(input), RATE)
        return {"text": biased(" ".join(word for word, _, _ in found), hotword),
                "timestamp": [[round(start * 1000), round(end * 1000)] for _, start, end in found]}

    def streaming(self, input, cache, is_final, hotword="", **_):  # noqa: A002
        """The words that have ended since the last call; with is_final, all."""
        samples = numpy.concatenate([cache.get("samples", numpy.zeros(0, dtype="<i2")), heard(input)])
        found = [word for word, _, end in words.spoken(samples, RATE) if is_final or end * RATE < len(samples)]
        cache["samples"], before, cache["words"] = samples, cache.get("words", 0), len(found)
        return {"text": biased(" ".join(found[before:]), hotword)}

    def punctuate(self, input, cache, **_):  # noqa: A002
        """Text with its punctuation. The real model begins again with the sentence that the last text left unfinished, as this one always does."""
        before, cache["pre_text"] = cache.get("pre_text", []), input.split()
        return {"text": input + ",", "punc_array": [1] * len(before) + [1] * (len(input.split()) - 1) + [2]}

    def speaker(self, input, **_):  # noqa: A002
        raise RuntimeError("no model for speakers")  # the server goes on without a name

    def voice(self, input, cache, is_final=False, max_end_silence_time=800, **_):  # noqa: A002
        """Where speech begins and ends, in milliseconds since the cache was new: [[beginning, -1]], [[-1, end]] or both in one."""
        stats = cache.setdefault("stats", types.SimpleNamespace(max_end_sil_frame_cnt_thresh=max_end_silence_time - 150))
        samples = numpy.concatenate([cache.get("rest", numpy.zeros(0, dtype=numpy.int16)), heard(input)])
        at, began, silent, found = cache.get("at", 0), cache.get("began"), cache.get("silent", 0), []
        for i in range(0, len(samples) - FRAME + 1, FRAME):
            at += 10
            if numpy.abs(samples[i:i + FRAME].astype(int)).max() > 200:
                silent = 0
                if began is None:
                    began = max(0, at - 100)
                    found.append([began, -1])
            elif began is not None:
                silent += 10
                if silent >= stats.max_end_sil_frame_cnt_thresh + 150:
                    began, silent = None, 0
                    found.append([-1, at - 100])
        if is_final and began is not None:
            began = None
            found.append([-1, at])
        cache.update(rest=samples[len(samples) // FRAME * FRAME:], at=at, began=began, silent=silent)
        return {"value": found}


class AutoModelVLLM:
    def __init__(self, **_):
        self._engine = types.SimpleNamespace(tokenizer=types.SimpleNamespace(
            encode=lambda text: text.split(), decode=lambda tokens, **_: " ".join(tokens)))

    def generate(self, inputs, hotwords=None, language=None, **_):
        return [{"key": f"sample_{i}", "text": biased(biased(words.text(heard(given), RATE), hotwords), language)} for i, given in enumerate(inputs)]


class Tensor(numpy.ndarray):
    """As much of torch.Tensor as the servers use."""

    def dim(self):
        return self.ndim

    def float(self):
        return self.astype(numpy.float32)


def no_grad():
    return lambda function: function


def install():
    """Puts the stubs where the servers import them from. The package itself stays as installed, without the models that it would import."""
    torch = types.ModuleType("torch")
    torch.Tensor, torch.no_grad, torch.float32 = Tensor, no_grad, numpy.float32
    torch.from_numpy = lambda array: array.view(Tensor)
    torch.zeros = lambda n, dtype=None: numpy.zeros(n, dtype=dtype).view(Tensor)
    torch.cuda = types.SimpleNamespace(OutOfMemoryError=MemoryError)
    funasr = types.ModuleType("funasr")
    funasr.__path__ = [os.path.join(folder, "funasr") for folder in sys.path if os.path.isdir(os.path.join(folder, "funasr", "bin"))]
    funasr.AutoModel = AutoModel
    vllm = types.ModuleType("funasr.auto.auto_model_vllm")
    vllm.AutoModelVLLM = AutoModelVLLM
    sys.modules.update({"torch": torch, "funasr": funasr, "funasr.auto.auto_model_vllm": vllm})
