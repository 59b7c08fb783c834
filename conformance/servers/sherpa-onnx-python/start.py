"""Runs sherpa-onnx's streaming_server.py with a model of random weights."""

import argparse
import os
import pathlib
import runpy
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "sherpa-onnx"))
import model

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--port", required=True)
parser.add_argument("--slots", default="200", help="how many connections it accepts")
args = parser.parse_args()
weights, tokens = model.write(sys.prefix)
examples = os.path.join(os.environ["SOURCE"], "python-api-examples")
os.chdir(sys.prefix)  # it writes a folder with its log
sys.path.insert(0, examples)
sys.argv = [
    "streaming_server.py", "--port", args.port, "--zipformer2-ctc", str(weights), "--tokens", str(tokens),
    "--max-active-connections", args.slots, "--doc-root", os.path.join(examples, "web"),
]
runpy.run_path(os.path.join(examples, "streaming_server.py"), run_name="__main__")
