"""Runs sherpa-onnx's own client in C++, from the same package, and prints the messages that it got but for the last: client.py URL AUDIO.wav."""

import os
import subprocess
import sys
import urllib.parse

url, audio = urllib.parse.urlsplit(sys.argv[1]), sys.argv[2]
client = os.path.join(sys.prefix, "bin", "sherpa-onnx-online-websocket-client")
done = subprocess.run([client, f"--server-ip={url.hostname}", f"--server-port={url.port}", audio], stderr=subprocess.PIPE, text=True)
for line in done.stderr.splitlines():
    place, _, message = line.partition(" ")
    # On a busy machine, the server's "Done!" can overtake the last result, which the client then does not wait for, with and without the proxy.
    if ":OnMessage:" in place and '"is_eof": true' not in message:
        print(message)
if done.returncode:
    sys.exit(done.stderr)
