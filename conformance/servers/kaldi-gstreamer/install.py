"""Finds a Python 2.7, which the server and its client need, and installs their packages for it."""

import os
import pathlib
import shutil
import subprocess
import sys

PACKAGES = ["tornado==4.5.3", "ws4py==0.3.2", "PyYAML==5.4.1", "futures==3.4.0", "numpy==1.16.6"]


def python2():
    for python in os.environ.get("PYTHON2"), shutil.which("python2.7"), *pathlib.Path.home().glob(".pyenv/versions/2.7.*/bin/python2.7"):
        if python and subprocess.run([python, "-c", ""], stderr=subprocess.DEVNULL).returncode == 0:
            return str(python)
    sys.exit("Python 2.7 is not installed: name its program in PYTHON2")


home = pathlib.Path(sys.prefix)
subprocess.run([python2(), "-m", "pip", "install", "--quiet", "--target", home / "packages2", *PACKAGES], check=True)
program = home / "bin" / "python2.7"
program.write_text(f'#!/bin/sh\nPYTHONPATH="{home / "packages2"}" exec "{python2()}" -u "$@"\n')
program.chmod(0o755)
