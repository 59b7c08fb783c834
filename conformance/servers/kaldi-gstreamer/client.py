"""Runs Kaldi GStreamer's own client and prints the results that it shows: client.py URL AUDIO.wav."""

import os
import subprocess
import sys

import interpreter

url, audio = sys.argv[1:]
python, environment = interpreter.arguments()
client = os.path.join(os.environ["SOURCE"], "kaldigstserver", "client.py")
done = subprocess.run([*python, client, "-u", url, audio], env=environment, capture_output=True, text=True)
for line in (done.stderr + "\n" + done.stdout).replace("\r", "\n").splitlines():
    if line.strip() and not line.startswith("Audio sent"): # that line comes at any time
        print(line.strip())
if done.returncode:
    sys.exit(done.stderr)
