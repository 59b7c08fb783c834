"""Runs the server's own programs with Python 2.7: python2.py master INSIDE PORT WORKERS, or python2.py worker INSIDE.

In place of GStreamer and Kaldi's plugin, the worker has a pipeline with the same methods whose words follow from the samples (words.py). The
master takes workers at the port INSIDE, and clients only when all workers are there.
"""

import json
import os
import Queue
import re
import runpy
import socket
import sys
import threading
import time
import types

import numpy

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
programs = os.path.join(os.environ["SOURCE"], "kaldigstserver")
sys.path.insert(0, programs)
import words

BLOCK = 0.25  # seconds after which there is a result, as with traceback-period-in-secs
PAUSE = 2  # blocks of silence that end a segment


class Pipeline(object):
    """What worker.py uses of decoder2.DecoderPipeline2. Its results have the form of kaldinnet2onlinedecoder's."""

    def __init__(self, conf):
        self.result = self.full_result = self.eos = None

    def set_result_handler(self, handler):
        self.result = handler

    def set_full_result_handler(self, handler):
        self.full_result = handler

    def set_error_handler(self, handler):
        pass

    def set_eos_handler(self, handler, user_data=None):
        self.eos = handler, user_data

    def init_request(self, id, caps):
        self.queue = Queue.Queue()
        decoding = threading.Thread(target=self.decode, args=(self.queue, caps or ""))
        decoding.daemon = True
        decoding.start()

    def process_data(self, data):
        self.queue.put(data)

    def end_request(self):
        self.queue.put(None)

    cancel = end_request

    def finish_request(self):
        pass

    def get_adaptation_state(self):
        return ""

    def set_adaptation_state(self, state):
        pass

    def decode(self, queue, caps):
        rate = int((re.findall(r"rate=(?:\(int\))?(\d+)", caps) or [16000])[0])
        size = int(rate * BLOCK) * 2
        undecoded, segment, before, silent = b"", b"", 0, 0
        for data in iter(queue.get, None):
            undecoded += data
            if not caps and undecoded.startswith(b"RIFF"): # what decodebin does
                if len(undecoded) < 44:
                    continue
                undecoded = undecoded[44:]
            while len(undecoded) >= size:
                block, undecoded = undecoded[:size], undecoded[size:]
                segment += block
                silent = 0 if numpy.abs(numpy.frombuffer(block, "<i2").astype(int)).max() > 200 else silent + 1
                found = words.spoken(numpy.frombuffer(segment, "<i2"), rate)
                if found and silent >= PAUSE:
                    before = self.final(found, before, len(segment) // 2, rate)
                    segment = b""
                elif found:
                    self.result(u" ".join(word for word, _, _ in found), False)
        segment += undecoded[:len(undecoded) // 2 * 2]
        found = words.spoken(numpy.frombuffer(segment, "<i2"), rate)
        if found:
            self.final(found, before, len(segment) // 2, rate)
        self.eos[0](self.eos[1])

    def final(self, found, before, samples, rate):
        text = u" ".join(word for word, _, _ in found)
        self.result(text, True)
        self.full_result(json.dumps({
            "status": 0,
            "result": {"final": True, "hypotheses": [{
                "transcript": text, "likelihood": 1.0,
                "word-alignment": [{"word": w, "start": a, "length": b - a, "confidence": 1.0} for w, a, b in found]}]},
            "segment-start": before / float(rate), "segment-length": samples / float(rate), "total-length": (before + samples) / float(rate),
        }))
        return before + samples


class MainLoop(object):
    def run(self):
        threading.Event().wait()


def module(name, **content):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(content)
    return sys.modules[name]


def worker(inside):
    gobject = module("gi.repository.GObject", MainLoop=MainLoop)
    repository = module("gi.repository", GObject=gobject)
    module("gi", repository=repository)
    module("decoder", DecoderPipeline=None)
    module("decoder2", DecoderPipeline2=Pipeline)
    while True: # since a worker that finds no master tries again after 5 s
        try:
            socket.create_connection(("127.0.0.1", int(inside))).close()
            break
        except socket.error:
            time.sleep(0.05)
    sys.argv = ["worker.py", "-u", "ws://127.0.0.1:%s/worker/ws/speech" % inside, "-c", os.path.join(here, "worker.yaml")]
    runpy.run_path(os.path.join(programs, "worker.py"), run_name="__main__")


def master(inside, port, workers):
    import tornado.ioloop
    import tornado.web
    listen = tornado.web.Application.listen

    def listen_when_complete(app, port):
        listen(app, int(inside), "127.0.0.1")

        def look():
            if len(app.available_workers) == int(workers):
                looking.stop()
                listen(app, port, "127.0.0.1")

        looking = tornado.ioloop.PeriodicCallback(look, 50)
        looking.start()

    tornado.web.Application.listen = listen_when_complete
    sys.argv = ["master_server.py", "--port=" + port]
    runpy.run_path(os.path.join(programs, "master_server.py"), run_name="__main__")


{"master": master, "worker": worker}[sys.argv[1]](*sys.argv[2:])
