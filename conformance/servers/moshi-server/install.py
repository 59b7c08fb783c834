"""Builds moshi-server from crates.io (a quarter of an hour), for the environment's Python."""

import os
import subprocess
import sys

subprocess.run(
    ["cargo", "install", "--quiet", "--locked", "--debug", "--root", sys.prefix, "moshi-server@0.6.4"], check=True,
    env=os.environ | {"PYO3_PYTHON": sys.executable, "CARGO_PROFILE_DEV_DEBUG": "0"})
