"""Runs sherpa-onnx's own client in C++, from the same package, and prints the messages that it got: client.py URL AUDIO.wav."""

import os
import subprocess
import sys
import urllib.parse

url, audio = urllib.parse.urlsplit(sys.argv[1]), sys.argv[2]
client = os.path.join(sys.prefix, "bin", "sherpa-onnx-online-websocket-client")
done = subprocess.run([client, f"--server-ip={url.hostname}", f"--server-port={url.port}", audio], stderr=subprocess.PIPE, text=True)
for line in done.stderr.splitlines():
    place, _, message = line.partition(" ")
    if ":OnMessage:" in place:
        print(message)
if done.returncode:
    sys.exit(done.stderr)
