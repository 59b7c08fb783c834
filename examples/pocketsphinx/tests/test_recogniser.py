import array
import unittest
from unittest import mock

import pocketsphinx

import recogniser
from recogniser import Decoders, Recogniser

from . import clip, pieces

SILENCE = bytes(32000)  # a second


def listen(session, audio, size=6400):
    """Return what a session makes of audio: words with their times and confidence."""
    words = []
    for piece in pieces(audio, size):
        words += session.accept(piece)
    return words + session.finish()


def text(words):
    return " ".join(word["word"] for word in words)


class CleanState(unittest.TestCase):
    """A session must not be able to tell who was there before it."""

    @classmethod
    def setUpClass(cls):
        cls.fresh = {name: listen(Recogniser(Decoders(), 16000), clip(name)) for name in ("young-man", "leisure")}

    def test_a_decoder_remembers(self):
        """The trap: a decoder that is used again, as its documentation shows, gives other results."""
        decoder = pocketsphinx.Decoder(loglevel="FATAL")
        results = []
        for _ in range(2):
            decoder.start_utt()
            decoder.process_raw(clip("young-man"))
            decoder.end_utt()
            results.append([(s.word, s.start_frame, s.end_frame, s.ascore) for s in decoder.seg()])
        self.assertNotEqual(*results)

    def test_finish_begins_anew(self):
        session = Recogniser(Decoders(), 16000)
        for name in ("young-man", "leisure", "young-man", "young-man", "leisure"):
            self.assertEqual(listen(session, clip(name)), self.fresh[name])

    def test_finish_inside_a_word(self):
        session = Recogniser(Decoders(), 16000)
        session.accept(clip("leisure")[:50001])
        self.assertNotEqual(session.partial(), "")
        session.finish()
        self.assertEqual(session.partial(), "")
        self.assertEqual(listen(session, clip("young-man")), self.fresh["young-man"])

    def test_sessions_share_decoders_one_after_another(self):
        decoders = Decoders()
        for end in (Recogniser.finish, Recogniser.close):
            first = Recogniser(decoders, 16000)
            first.accept(clip("leisure")[:100000])
            end(first)
            with mock.patch("pocketsphinx.Decoder", side_effect=AssertionError("a decoder was free")):
                self.assertEqual(listen(Recogniser(decoders, 16000), clip("young-man")), self.fresh["young-man"])

    def test_sessions_at_the_same_time(self):
        decoders = Decoders()
        sessions = {name: Recogniser(decoders, 16000) for name in self.fresh}
        words = {name: [] for name in self.fresh}
        audio = {name: pieces(clip(name)) for name in self.fresh}
        while any(audio.values()):
            for name in self.fresh:
                if audio[name]:
                    words[name] += sessions[name].accept(audio[name].pop(0))
        for name in self.fresh:
            self.assertEqual(words[name] + sessions[name].finish(), self.fresh[name])

    def test_another_sample_rate_before(self):
        decoders = Decoders()
        fast = array.array("h", (v for v in array.array("h", clip("young-man")) for _ in range(3))).tobytes()
        self.assertIn("young man", text(listen(Recogniser(decoders, 48000), fast)))
        self.assertEqual(listen(Recogniser(decoders, 16000), clip("young-man")), self.fresh["young-man"])


class Utterances(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.decoders = Decoders()

    def session(self):
        return Recogniser(self.decoders, 16000)

    def test_messages_may_be_cut_anywhere(self):
        whole = listen(self.session(), clip("young-man"))
        self.assertIn("young man", text(whole))
        for size in (958, 3201, 1 << 20):
            self.assertEqual(listen(self.session(), clip("young-man"), size), whole)

    def test_a_pause_ends_an_utterance(self):
        session = self.session()
        audio = clip("young-man") + SILENCE + clip("amiable")
        ended = [words for piece in pieces(audio) if (words := session.accept(piece))]
        ended.append(session.finish())
        self.assertEqual(len(ended), 2)
        self.assertIn("young man", text(ended[0]))
        self.assertIn("he might even have been made", text(ended[1]))
        self.assertGreater(ended[1][0]["start"], len(clip("young-man") + SILENCE) / 32000)

    def test_several_utterances_in_a_message(self):
        words = self.session().accept(clip("young-man") + SILENCE + clip("amiable") + SILENCE)
        self.assertIn("young man", text(words))
        self.assertIn("he might even have been made", text(words))

    def test_a_long_utterance_is_cut_off(self):
        with mock.patch.object(recogniser, "LONGEST_UTTERANCE", 2):
            session = self.session()
            ended = [words for piece in pieces(clip("leisure")) if (words := session.accept(piece))]
            self.assertGreaterEqual(len(ended), 3)
            words = sum(ended, []) + session.finish()
        starts = [word["start"] for word in words]
        self.assertEqual(starts, sorted(starts))
        self.assertGreater(starts[-1], 6)
        for word in words:
            self.assertLess(word["start"], word["end"])
            self.assertLessEqual(word["end"], 7.2)

    def test_partials_grow_into_the_text(self):
        session = self.session()
        partials = []
        for piece in pieces(clip("young-man")):
            session.accept(piece)
            partials.append(session.partial())
        self.assertIn("he was not", partials)
        self.assertEqual(session.partial(), partials[-1])

    def test_nothing_to_hear(self):
        for audio in (b"", b"x", SILENCE * 3):
            session = self.session()
            self.assertEqual(session.accept(audio), [])
            self.assertEqual(session.partial(), "")
            self.assertEqual(session.finish(), [])
        self.assertEqual(self.session().finish(), [])
