"""Runs sherpa-onnx's own client in Python and prints the results that it logs: client.py URL AUDIO.wav."""

import logging
import os
import runpy
import sys
import urllib.parse

url, audio = urllib.parse.urlsplit(sys.argv[1]), sys.argv[2]
logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
logging.getLogger().handlers[0].addFilter(lambda record: "server_addr" not in record.getMessage())  # it logs its own settings as well
sys.argv = ["client", "--server-addr", url.hostname, "--server-port", str(url.port), audio]
runpy.run_path(os.path.join(os.environ["SOURCE"], "python-api-examples", "online-websocket-client-decode-file.py"), run_name="__main__")
