"""What both Autobahn runs share: the two Python environments and a network of their own."""

import contextlib
import ctypes
import fcntl
import hashlib
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys

from processes import ROOT, virtual_environment

HERE = pathlib.Path(__file__).resolve().parent
CACHE = ROOT / ".cache" / "conformance"
LOGS = CACHE / "logs"

# permessage-deflate is not accepted by wsbouncer, so its cases have nothing to test.
EXCLUDED = ["12.*", "13.*"]

NO_PYTHON2 = """\
conformance: not run, because no Python 2.7 was found.
Autobahn's test suite runs on nothing newer. Looked at $PYTHON2, python2.7 and python2 on PATH, and pyenv.
To get one:  pyenv install 2.7.18   (https://github.com/pyenv/pyenv; it is found there without being activated)
or set PYTHON2=/path/to/python2.7"""


# --- Setting up -------------------------------------------------------------------------------------------------------

def find_python2():
    """The path of a Python 2.7 that really runs (a pyenv shim may be on PATH and not run), or None."""
    candidates = [os.environ.get("PYTHON2"), shutil.which("python2.7"), shutil.which("python2")]
    if shutil.which("pyenv"):
        listed = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True).stdout.split()
        for version in sorted(v for v in listed if v.startswith("2.7")):
            prefix = subprocess.run(["pyenv", "prefix", version], capture_output=True, text=True).stdout.strip()
            candidates.append(os.path.join(prefix, "bin", "python2.7"))
    probe = "import sys; assert sys.version_info[:2] == (2, 7); print(sys.executable)"
    for candidate in filter(None, candidates):
        with contextlib.suppress(OSError):
            result = subprocess.run([candidate, "-c", probe], capture_output=True, text=True)
            if result.returncode == 0:
                return result.stdout.strip()
    return None


def environment(name, interpreter, requirements, create):
    """The folder with the programs of a virtual environment in the cache."""
    pins = HERE / requirements
    made_from = interpreter + " " + hashlib.sha256(pins.read_bytes()).hexdigest()
    return virtual_environment(CACHE / name, create, pins, made_from, LOGS / (name + ".log"))


def environments(python2):
    """The directories with the programs of the two environments: of Python 3, and of Python 2.7 with Autobahn."""
    LOGS.mkdir(parents=True, exist_ok=True)
    python3_bin = environment("python3", sys.executable, "requirements-backend.txt", [sys.executable, "-m", "venv"])
    autobahn_bin = environment("python2", python2, "requirements-autobahn.txt",
                               [str(python3_bin / "python"), "-m", "virtualenv", "--python", python2])
    return python3_bin, autobahn_bin


# --- The network ------------------------------------------------------------------------------------------------------

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def own_network():
    """Move this process, and those that it starts from now on, to a network namespace that has nothing but a loopback
    interface. Returns None, or why that is not possible here."""
    if not sys.platform.startswith("linux"):
        return "this is not Linux"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        return os.strerror(ctypes.get_errno())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
    return None
