"""Runs FunASR's own client, unchanged, with a recording, and prints what it shows, without the latencies."""

import os
import subprocess
import sys
import tempfile
import urllib.parse

url = urllib.parse.urlsplit(sys.argv[1])
program = os.path.join(os.environ["SOURCE"], "runtime", "python", "websocket", "funasr_wss_client.py")
with tempfile.TemporaryDirectory() as logs:
    done = subprocess.run(
        [sys.executable, program, "--host", url.hostname, "--port", str(url.port), "--ssl", "0", "--audio_in", os.path.abspath(sys.argv[2])],
        cwd=logs, stdout=subprocess.PIPE, text=True)
for line in done.stdout.splitlines():
    if line.startswith(("pid", "[MEETING")):
        print(line)
sys.exit(done.returncode)
