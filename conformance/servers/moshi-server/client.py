"""Runs Kyutai's own scripts/stt_from_file_rust_server.py, which adds the path: client.py URL AUDIO.wav."""

import os
import runpy
import sys

url, audio = sys.argv[1:]
sys.argv[1:] = ["--url", url.split("/api/")[0], audio]
runpy.run_path(os.path.join(os.environ["SOURCE"], "scripts", "stt_from_file_rust_server.py"), run_name="__main__")
