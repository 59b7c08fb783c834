"""Recognisers in processes of their own.

PocketSphinx keeps Python's global lock while it works, so that threads would take turns, and the event loop would wait
for all of them. Each worker is one process that serves several sessions; a session stays with its worker, where its
recogniser lives.
"""

import asyncio
import concurrent.futures
import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading

from recogniser import Decoders, Recogniser


class Workers:
    """The processes. Its methods and those of its sessions are for the event loop's thread."""

    def __init__(self, count):
        self._workers = [_Worker() for _ in range(count)]
        self._names = itertools.count()

    async def start(self):
        """Load a decoder in each process, so that the first session need not wait for it."""
        await asyncio.gather(*(worker.run(_prepare) for worker in self._workers))

    def session(self, sample_rate):
        """Return a session with a recogniser of its own, in the process that has the fewest."""
        worker = min(self._workers, key=lambda worker: worker.sessions)
        return Session(worker, next(self._names), sample_rate)

    def stop(self):
        for worker in self._workers:
            worker.stop()


class Session:
    """One session's recogniser. See recogniser.Recogniser for what the calls do."""

    def __init__(self, worker, name, sample_rate):
        self._worker, self._name, self._sample_rate = worker, name, sample_rate
        worker.sessions += 1

    async def accept(self, audio):
        """Return the words of utterances that ended in the audio, and the text of the one under way."""
        return await self._worker.run(_accept, self._name, self._sample_rate, audio)

    async def finish(self):
        """Return the words that were not returned yet, and begin anew."""
        return await self._worker.run(_finish, self._name)

    def close(self):
        """Give the recogniser up. Nothing waits for that: the worker does it after what it does for the session now."""
        self._worker.sessions -= 1
        self._worker.submit(_close, self._name)


class _Worker:
    def __init__(self):
        self.sessions = 0
        self._pool = _new_pool()

    async def run(self, function, *arguments):
        """Call a function in the process. When the process is lost its sessions fail, and a new one takes its place."""
        pool = self._pool
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, function, *arguments)
        except concurrent.futures.BrokenExecutor as error:
            if pool is self._pool:
                self._pool = _new_pool()
            raise RuntimeError("the recogniser's process was lost") from error

    def submit(self, function, *arguments):
        try:
            self._pool.submit(function, *arguments)
        except RuntimeError:  # the pool is broken or was stopped: there is nothing to give up
            pass

    def stop(self):
        self._pool.shutdown(cancel_futures=True)


def _new_pool():
    # Not forked: a fork would inherit the sockets of the server, and hold them open.
    context = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(1, mp_context=context, initializer=_initialise)


# What follows runs in the worker's process.

_decoders = Decoders()
_recognisers = {}  # by the names of sessions


def _initialise():
    # Ctrl-C at a terminal reaches every process; the server ends its workers in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent():
    """End this process when the server was killed and could not do so."""
    multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def _prepare():
    recogniser = Recogniser(_decoders, 16000)
    recogniser.accept(b"")
    recogniser.close()


def _accept(name, sample_rate, audio):
    if name not in _recognisers:
        _recognisers[name] = Recogniser(_decoders, sample_rate)
    recogniser = _recognisers[name]
    return recogniser.accept(audio), recogniser.partial()


def _finish(name):
    recogniser = _recognisers.get(name)
    return recogniser.finish() if recogniser else []


def _close(name):
    recogniser = _recognisers.pop(name, None)
    if recogniser:
        recogniser.close()
