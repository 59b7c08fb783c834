"""Runs FunASR's WebSocket server in Python, from the checkout that SOURCE names, without models (automodel.py)."""

import argparse
import os
import runpy
import sys

import automodel

given = argparse.ArgumentParser()
given.add_argument("--port", type=int, required=True)
given, more = given.parse_known_args()
program = os.path.join(os.environ["SOURCE"], "runtime", "python", "websocket", "funasr_wss_server.py")
sys.argv = [program, "--host", "127.0.0.1", "--port", str(given.port), "--certfile", "", "--ngpu", "0", "--device", "cpu", *more]
automodel.install()
runpy.run_path(program, run_name="__main__")
