"""Runs vosk-server's own websocket/test.py, whose URL is fixed, with another URL: client.py URL AUDIO.wav."""

import os
import runpy
import sys

import websockets

url, connect = sys.argv.pop(1), websockets.connect
websockets.connect = lambda fixed: connect(url)
runpy.run_path(os.path.join(os.environ["SOURCE"], "websocket", "test.py"), run_name="__main__")
