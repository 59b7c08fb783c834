"""Runs Kaldi GStreamer's own client and prints the results that it shows: client.py URL AUDIO.wav."""

import os
import subprocess
import sys

url, audio = sys.argv[1:]
client = os.path.join(os.environ["SOURCE"], "kaldigstserver", "client.py")
done = subprocess.run([os.path.join(sys.prefix, "bin", "python2.7"), client, "-u", url, audio], capture_output=True, text=True)
for line in (done.stderr + "\n" + done.stdout).replace("\r", "\n").splitlines():
    if line.strip() and not line.startswith("Audio sent"): # that line comes at any time
        print(line.strip())
if done.returncode:
    sys.exit(done.stderr)
