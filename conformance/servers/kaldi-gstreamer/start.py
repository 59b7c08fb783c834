"""Runs Kaldi GStreamer's master_server.py, and worker.py as often as there are places, both over Python 2.7 (see python2.py)."""

import argparse
import ctypes
import os
import pathlib
import signal
import socket
import subprocess

import interpreter

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--port", required=True)
parser.add_argument("--slots", type=int, default=16, help="how many workers there are")
args = parser.parse_args()
python, environment = interpreter.arguments()
python.append(str(pathlib.Path(__file__).with_name("python2.py")))
with socket.create_server(("127.0.0.1", 0)) as free:
    inside = str(free.getsockname()[1])
end_with_master = lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
for _ in range(args.slots):
    subprocess.Popen([*python, "worker", inside], env=environment, preexec_fn=end_with_master)
os.execve(python[0], [*python, "master", inside, args.port, str(args.slots)], environment)
