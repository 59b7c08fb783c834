"""Runs sherpa-onnx's online WebSocket server in C++ with a model of random weights."""

import argparse
import os
import sys

import model

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--port", type=int, required=True)
args = parser.parse_args()
weights, tokens = model.write(sys.prefix)
server = os.path.join(sys.prefix, "bin", "sherpa-onnx-online-websocket-server")
os.execv(server, [server, f"--port={args.port}", f"--zipformer2-ctc-model={weights}", f"--tokens={tokens}", "--log-file=/dev/null"])
