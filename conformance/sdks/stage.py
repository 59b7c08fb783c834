"""The processes of a run: simulated services, the proxy in front of them, and the SDKs' clients. Each ends with its block."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / ".cache" / "sdks"
LOGS = CACHE / "logs"

PATIENCE = 60  # seconds for what takes two or three


class Failure(Exception):
    """The run could not be made; the message says why."""


def tail(log, lines=15):
    return "\n".join("    " + line for line in log.read_text(errors="replace").splitlines()[-lines:])


def clean_environment():
    """What the processes get of the environment: no proxies, keys, base URLs or settings of somebody's own."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG", "SYSTEMROOT") if name in os.environ}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1", "NO_PROXY": "*"}


def python():
    """The interpreter of a virtual environment with the SDKs, made anew only when it or the pins have changed."""
    pins = HERE / "requirements.txt"
    path = CACHE / "python"
    interpreter = path / ("Scripts" if os.name == "nt" else "bin") / "python"
    stamp = path / "made-from"
    wanted = "%s %s %s" % (sys.executable, sys.version, hashlib.sha256(pins.read_bytes()).hexdigest())
    if stamp.exists() and stamp.read_text() == wanted:
        return interpreter
    print("installing the SDKs in %s ..." % path.relative_to(ROOT), flush=True)
    shutil.rmtree(path, ignore_errors=True)
    log = LOGS / "python.log"
    with open(log, "w") as out:
        for command in ([sys.executable, "-m", "venv", str(path)],
                        [str(interpreter), "-m", "pip", "install", "--disable-pip-version-check", "-r", str(pins)]):
            if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode:
                raise Failure("%s failed:\n%s" % (" ".join(command), tail(log)))
    stamp.write_text(wanted)
    return interpreter


@contextlib.contextmanager
def running(command, log, **options):
    """A process that lives as long as the block and is asked, then made, to end. It is in a group of its own, so that an interrupt
    reaches it through this program only."""
    with open(log, "w") as errors:
        process = subprocess.Popen([str(word) for word in command], stderr=errors, env=clean_environment(),
                                   start_new_session=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


@contextlib.contextmanager
def service(binary, name, protocol, *flags):
    """A simulated service; yields its URL."""
    log = LOGS / (name + ".log")
    command = [binary, "sim", "--protocol", protocol, "--listen", "127.0.0.1:0", *flags]
    with running(command, log, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        if not url:
            raise Failure("the simulated service did not start:\n" + tail(log))
        yield url


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def proxy(binary, name, backend, *flags):
    """wsbouncer in front of a backend; yields its URL."""
    listen, admin = ("127.0.0.1:%d" % free_port() for _ in range(2))
    log = LOGS / (name + ".log")
    command = [binary, "serve", "--listen", listen, "--admin", admin, "--state-directory", CACHE / "state",
               "--backend", backend, "--connections", "4", "--drain-timeout", "0s", *flags]
    with running(command, log, stdout=subprocess.DEVNULL) as process:
        wait_until_live(process, "http://%s/healthz" % admin, log)
        yield "ws://" + listen


def wait_until_live(process, url, log):
    """Wait until the proxy listens. Not until it is ready: with a bad key no connection is ever established in advance."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failure("wsbouncer ended with status %d:\n%s" % (process.returncode, tail(log)))
        with contextlib.suppress(OSError):  # refused, or an HTTP status other than 200
            with opener.open(url, timeout=2):
                return
        time.sleep(0.05)
    raise Failure("wsbouncer did not answer within %d s (%s):\n%s" % (PATIENCE, url, tail(log)))


def client(interpreter, script, name, **arguments):
    """Run an SDK's client to its end; returns what it reports, or why there is no report, as a text."""
    log = LOGS / (name + ".log")
    command = [interpreter, HERE / "clients" / script]
    for key, value in arguments.items():
        command += ["--" + key, value]
    with running(command, log, stdout=subprocess.PIPE, text=True) as process:
        try:
            out, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return "did not end within %d s" % PATIENCE
    if process.returncode:
        return "ended with status %d:\n%s" % (process.returncode, tail(log))
    try:
        return json.loads(out)
    except ValueError:
        return "reported something else than JSON: %.200r" % out
