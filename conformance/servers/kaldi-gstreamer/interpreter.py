"""Finds a Python 2.7, which the server and its client need, and installs their packages for it."""

import os
import pathlib
import shutil
import subprocess
import sys


def arguments():
    """The first arguments of a command that runs a program with Python 2.7, and the environment that it needs."""
    candidates = [os.environ.get("PYTHON2"), shutil.which("python2.7")]
    candidates += map(str, pathlib.Path.home().glob(".pyenv/versions/2.7.*/bin/python2.7"))
    for python in filter(None, candidates):
        if subprocess.run([python, "-c", ""], stderr=subprocess.DEVNULL).returncode == 0:
            break
    else:
        sys.exit("Python 2.7 is not installed: name its program in PYTHON2")
    packages = pathlib.Path(sys.prefix) / "python2"
    if not packages.exists():
        made = packages.with_name(f"python2-{os.getpid()}")
        list_ = pathlib.Path(__file__).with_name("python2.txt")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--target", made, "-r", list_], check=True, stderr=subprocess.DEVNULL)
        try:
            made.rename(packages)
        except OSError:  # another server has just made it
            shutil.rmtree(made)
    return [python, "-u"], {**os.environ, "PYTHONPATH": str(packages)}
