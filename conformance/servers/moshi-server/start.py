"""Runs moshi-server with its Python module (PyBatchedAsr), whose model is module.py."""

import argparse
import os
import pathlib
import site
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import module

CONFIGURATION = """
static_dir = "{home}"
log_dir = "{home}"
instance_name = "tried"
authorized_ids = ["public_token"]

[modules.asr]
type = "PyBatchedAsr"
path = "/api/asr-streaming"
script = "{script}"
batch_size = {slots}
text_tokenizer_file = "{home}/tokenizer.model"
asr_delay_in_tokens = 6
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", required=True)
    parser.add_argument("--slots", type=int, default=32)
    args = parser.parse_args()
    home = pathlib.Path(tempfile.mkdtemp(dir=sys.prefix))
    (home / "tokenizer.model").write_bytes(module.tokenizer())
    (home / "config.toml").write_text(CONFIGURATION.format(home=home, script=HERE / "module.py", slots=args.slots))
    path = os.pathsep.join([str(HERE.parent)] + site.getsitepackages())
    program = os.path.join(sys.prefix, "bin", "moshi-server")
    os.execve(program, [program, "worker", "--cpu", "--addr", "127.0.0.1", "--port", args.port, "--config", str(home / "config.toml")],
              os.environ | {"PYTHONPATH": path})


main()
