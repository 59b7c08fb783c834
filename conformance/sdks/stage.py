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


def node():
    """The command that runs a program in Node with the SDKs for browsers, or why there is none, as a text. The programs are copied to
    where their packages are."""
    missing = [name for name in ("node", "npm", "openssl") if not shutil.which(name)]
    if missing:
        return "there is no %s" % ", ".join(missing)
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    major, minor = (int(part) for part in version.lstrip("v").split(".")[:2])
    if (major, minor) < (20, 10):
        return "a WebSocket like a browser's is in Node since 20.10; this is %s" % version
    path = CACHE / "node"
    path.mkdir(exist_ok=True)
    for source in (HERE / "node").iterdir():
        shutil.copy(source, path)
    stamp = path / "made-from"
    wanted = version + hashlib.sha256((path / "package-lock.json").read_bytes()).hexdigest()
    if not (stamp.exists() and stamp.read_text() == wanted):
        print("installing the SDK for browsers in %s ..." % path.relative_to(ROOT), flush=True)
        log = LOGS / "node.log"
        with open(log, "w") as out:
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            if subprocess.run(command, cwd=path, stdout=out, stderr=subprocess.STDOUT).returncode:
                return "%s failed:\n%s" % (" ".join(command), tail(log))
        stamp.write_text(wanted)
    return ["node"] + (["--experimental-websocket"] if major < 22 else [])


def certificate():
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    made, key = CACHE / "certificate.pem", CACHE / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
               "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Failure("making a certificate failed: " + done.stderr)
    return made, key


@contextlib.contextmanager
def running(command, log, extra=(), **options):
    """A process that lives as long as the block and is asked, then made, to end. It is in a group of its own, so that an interrupt
    reaches it through this program only."""
    with open(log, "w") as errors:
        process = subprocess.Popen([str(word) for word in command], stderr=errors, env=clean_environment() | dict(extra),
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
def announced(command, log):
    """A process that prints its URL once it listens; yields the URL."""
    with running(command, log, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        if not url:
            raise Failure("%s did not start:\n%s" % (command[1], tail(log)))
        yield url


def service(binary, name, protocol, *flags):
    """A simulated service; yields its URL."""
    return announced([binary, "sim", "--protocol", protocol, "--listen", "127.0.0.1:0", *flags], LOGS / (name + ".log"))


def tls(name, url, files):
    """TLS in front of a ws:// URL; yields the wss:// URL."""
    command = [sys.executable, HERE / "tls_relay.py", "--to", url.removeprefix("ws://"), "--certificate", files[0], "--key", files[1]]
    return announced(command, LOGS / (name + ".log"))


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


def client(command, name, trust=None, **arguments):
    """Run an SDK's client to its end; returns what it reports, or why there is no report, as a text. Trust is a certificate for Node."""
    log = LOGS / (name + ".log")
    command = list(command)
    for key, value in arguments.items():
        command += ["--" + key, value]
    extra = {"NODE_EXTRA_CA_CERTS": str(trust)} if trust else {}
    with running(command, log, extra, stdout=subprocess.PIPE, text=True) as process:
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
