"""What all conformance runs share: environments that are installed once, child processes, and the way a run ends."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent

# How long a process may take to start, in seconds. It usually takes two or three.
START_TIMEOUT = 60


class Failure(Exception):
    """The run is impossible; the message says why."""


def say(text):
    print(text, flush=True)


def tail(log, lines=15):
    return "\n".join("    " + line for line in log.read_text(errors="replace").splitlines()[-lines:])


def install(path, made_from, log, *commands, cwd=None):
    """Run the commands that fill a folder, unless they have filled it from the same text before."""
    stamp = path / "made-from"
    if stamp.exists() and stamp.read_text() == made_from:
        return
    say("installing %s ..." % path.relative_to(ROOT))
    with open(log, "w") as out:
        for command in commands:
            if subprocess.run(command, cwd=cwd, stdout=out, stderr=subprocess.STDOUT).returncode:
                raise Failure("%s failed:\n%s" % (" ".join(command), tail(log)))
    stamp.write_text(made_from)


def virtual_environment(path, create, pins, made_from, log):
    """A virtual environment with the packages in `pins`; returns the folder of its programs."""
    programs = path / ("Scripts" if os.name == "nt" else "bin")
    stamp = path / "made-from"
    if not (stamp.exists() and stamp.read_text() == made_from):
        shutil.rmtree(path, ignore_errors=True)
    install(path, made_from, log, create + [str(path)],
            [str(programs / "python"), "-m", "pip", "install", "--disable-pip-version-check", "-r", str(pins)])
    return programs


def certificate(folder):
    """A certificate for 127.0.0.1 that is its own authority, and its key: two paths in the folder."""
    made, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
               "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise Failure("a certificate needs openssl: %s" % error)
    if done.returncode:
        raise Failure("making a certificate failed: " + done.stderr)
    key.chmod(0o600)
    return made, key


def wsbouncer_binary():
    binary = pathlib.Path(os.environ.get("WSBOUNCER", ROOT / "bin" / "wsbouncer"))
    if not os.access(binary, os.X_OK):
        raise Failure("%s does not exist: build it with `make build`" % binary)
    return binary


@contextlib.contextmanager
def running(command, log, **options):
    """A process that runs as long as the block. At the end it gets SIGTERM, and SIGKILL if it does not stop. Its own session
    keeps a Ctrl-C away from it."""
    with open(log, "w") as errors:
        process = subprocess.Popen([str(word) for word in command], stderr=errors, start_new_session=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


@contextlib.contextmanager
def announced(command, log, **options):
    """A process that prints its URL once it listens; yields the URL."""
    with running(command, log, stdout=subprocess.PIPE, text=True, **options) as process:
        url = process.stdout.readline().strip()
        if not url:
            raise Failure("%s did not start:\n%s" % (command[1], tail(log)))
        yield url


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(process, log, what, check):
    """Wait until the check no longer raises OSError."""
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failure("%s ended with status %d:\n%s" % (process.args[0], process.returncode, tail(log)))
        with contextlib.suppress(OSError):
            return check()
        time.sleep(0.05)
    raise Failure("%s: %s does not answer after %d s:\n%s" % (process.args[0], what, START_TIMEOUT, tail(log)))


def wait_ok(process, log, url):
    """Wait until the process answers a URL with HTTP status 200."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    wait_for(process, log, url, lambda: opener.open(url, timeout=2).close())  # another status raises an OSError


def wait_open(process, log, port):
    """Wait until the process listens on a port of the loopback interface."""
    wait_for(process, log, "port %d" % port, lambda: socket.create_connection(("127.0.0.1", port), timeout=2).close())


def run_main(name, main):
    """Exit with what main returns, or with why it failed."""
    for ending in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:
        signal.signal(ending, lambda *_: sys.exit(1))  # so that the child processes are stopped as well
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit("%s: %s" % (name, failure))
    except KeyboardInterrupt:
        sys.exit("%s: interrupted" % name)
