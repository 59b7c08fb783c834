"""What both conformance runs need: the Python environments, the processes, a network of their own."""

import contextlib
import ctypes
import fcntl
import hashlib
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
CACHE = ROOT / ".cache" / "conformance"
LOGS = CACHE / "logs"

# permessage-deflate is not accepted by wsbouncer, so its cases have nothing to test.
EXCLUDED = ["12.*", "13.*"]

NO_PYTHON2 = """\
conformance: not run, because no Python 2.7 was found.
Autobahn's test suite runs on nothing newer. Looked at $PYTHON2, python2.7 and python2 on PATH, and pyenv.
To get one:  pyenv install 2.7.18   (https://github.com/pyenv/pyenv; it is found there without being activated)
or set PYTHON2=/path/to/python2.7"""


class Failure(Exception):
    """The run could not be made; the message says why."""


def say(text):
    print(text, flush=True)


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
    """A virtual environment in the cache, made anew only when its interpreter or its pins have changed."""
    path = CACHE / name
    pins = HERE / requirements
    stamp = path / "made-from"
    wanted = interpreter + " " + hashlib.sha256(pins.read_bytes()).hexdigest()
    if not (stamp.exists() and stamp.read_text() == wanted):
        say("setting up %s ..." % path.relative_to(ROOT))
        shutil.rmtree(path, ignore_errors=True)
        log = LOGS / (name + ".log")
        with open(log, "w") as out:
            for command in (create + [str(path)],
                            [str(path / "bin" / "python"), "-m", "pip", "install", "-r", str(pins)]):
                if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode:
                    raise Failure("%s failed:\n%s" % (" ".join(command), tail(log)))
        stamp.write_text(wanted)
    return path / "bin"


def environments(python2):
    """The directories with the programs of the two environments: of Python 3, and of Python 2.7 with Autobahn."""
    LOGS.mkdir(parents=True, exist_ok=True)
    python3_bin = environment("python3", sys.executable, "requirements-backend.txt", [sys.executable, "-m", "venv"])
    autobahn_bin = environment("python2", python2, "requirements-autobahn.txt",
                               [str(python3_bin / "python"), "-m", "virtualenv", "--python", python2])
    return python3_bin, autobahn_bin


def wsbouncer_binary():
    binary = pathlib.Path(os.environ.get("WSBOUNCER", ROOT / "bin" / "wsbouncer"))
    if not os.access(binary, os.X_OK):
        raise Failure("no %s; build it first (make build)" % binary)
    return binary


def tail(log, lines=15):
    return "\n".join("    " + line for line in log.read_text(errors="replace").splitlines()[-lines:])


# --- Processes --------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def running(command, log, **options):
    """A process that lives as long as the block and is asked, then made, to end."""
    with open(log, "w") as errors:
        process = subprocess.Popen(command, stderr=errors, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_ready(process, url, log, patience=30):
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failure("wsbouncer ended with status %d:\n%s" % (process.returncode, tail(log)))
        with contextlib.suppress(OSError):  # refused, or an HTTP status other than 200
            with urllib.request.urlopen(url, timeout=2):
                return
        time.sleep(0.1)
    raise Failure("wsbouncer was not ready within %d s (%s):\n%s" % (patience, url, tail(log)))


def wait_open(process, address, log, patience=30):
    """Wait until the process listens there."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failure("%s ended with status %d:\n%s" % (process.args[0], process.returncode, tail(log)))
        with contextlib.suppress(OSError):
            socket.create_connection(address, timeout=2).close()
            return
        time.sleep(0.1)
    raise Failure("%s did not listen at %s:%d within %d s:\n%s" % (process.args[0], *address, patience, tail(log)))


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


# --- main -------------------------------------------------------------------------------------------------------------

def run_main(main):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended as well
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit("conformance: %s" % failure)
    except KeyboardInterrupt:
        sys.exit("conformance: interrupted")
