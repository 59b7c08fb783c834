"""Runs FunASR's own client, unchanged, with a recording, and prints its last screen: what it shows before depends on when the server decodes."""

import os
import re
import subprocess
import sys

program = os.path.join(os.environ["SOURCE"], "examples", "industrial_data_pretraining", "fun_asr_nano", "client_python.py")
done = subprocess.run([sys.executable, program, "--server", sys.argv[1], "--file", sys.argv[2]], stdout=subprocess.PIPE, text=True)
print(re.sub("\033\\[[0-9;]*[A-Za-z]", "", done.stdout.split("\033[2J\033[H")[-1]).strip())
sys.exit(done.returncode)
