"""Runs FunASR's realtime_ws.py, as installed, without models (../funasr/automodel.py), and on the loopback interface only."""

import os
import sys

import websockets

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "funasr"))
import automodel  # noqa: E402

serve = websockets.serve
websockets.serve = lambda handler, _, port, **options: serve(handler, "127.0.0.1", port, **options)
automodel.install()
from funasr.bin import realtime_ws  # noqa: E402

realtime_ws.cli_main()
