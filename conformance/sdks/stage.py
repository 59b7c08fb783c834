"""The processes of a run: simulated services, the proxy in front of them, and the SDKs' clients. Each ends with its block."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import processes
from processes import ROOT, Failure, free_port, install, tail, virtual_environment, wait_ok

HERE = pathlib.Path(__file__).resolve().parent
CACHE = ROOT / ".cache" / "sdks"
LOGS = CACHE / "logs"

# How long an SDK's client may run, in seconds. It usually takes two or three.
CLIENT_TIMEOUT = 60


def clean_environment():
    """What the processes get of the environment: no proxies, keys, base URLs or settings of the user's own."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG", "SYSTEMROOT") if name in os.environ}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1", "NO_PROXY": "*"}


def python():
    """The interpreter of a virtual environment with the SDKs."""
    pins = HERE / "requirements.txt"
    made_from = "%s %s %s" % (sys.executable, sys.version, hashlib.sha256(pins.read_bytes()).hexdigest())
    create = [sys.executable, "-m", "venv"]
    return virtual_environment(CACHE / "python", create, pins, made_from, LOGS / "python.log") / "python"


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
    made_from = version + hashlib.sha256((path / "package-lock.json").read_bytes()).hexdigest()
    try:
        install(path, made_from, LOGS / "node.log", ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=path)
    except Failure as failure:
        return str(failure)
    return ["node"] + (["--experimental-websocket"] if major < 22 else [])


def certificate():
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    return processes.certificate(CACHE)


def running(command, log, extra=(), **options):
    return processes.running(command, log, env=clean_environment() | dict(extra), **options)


def announced(command, log):
    return processes.announced(command, log, env=clean_environment())


def service(binary, name, protocol, *flags):
    """A simulated service; yields its URL."""
    return announced([binary, "sim", "--protocol", protocol, "--listen", "127.0.0.1:0", *flags], LOGS / (name + ".log"))


def tls(name, url, files):
    """TLS in front of a ws:// URL; yields the wss:// URL."""
    command = [sys.executable, HERE / "tls_relay.py", "--to", url.removeprefix("ws://"), "--certificate", files[0], "--key", files[1]]
    return announced(command, LOGS / (name + ".log"))


@contextlib.contextmanager
def proxy(binary, name, backend, *flags):
    """wsbouncer in front of a backend; yields its URL."""
    listen, admin = ("127.0.0.1:%d" % free_port() for _ in range(2))
    log = LOGS / (name + ".log")
    command = [binary, "serve", "--listen", listen, "--admin", admin, "--state-directory", CACHE / "state",
               "--backend", backend, "--connections", "4", "--drain-timeout", "0s", *flags]
    with running(command, log, stdout=subprocess.DEVNULL) as process:
        wait_ok(process, log, "http://%s/healthz" % admin)  # not /readyz: with a bad key no connection is ever dialed in advance
        yield "ws://" + listen


@contextlib.contextmanager
def edge(binary, name, backend, files, profile, sends, own):
    """wsbouncer at the edge: TLS on both sides, clients authenticated with a key in the place that sends names, and a header with a key of
    its own for the backend, which is Authorization unless sends names another. Yields its URL and the clients' key. The log must have neither key."""
    listen, admin = ("127.0.0.1:%d" % free_port() for _ in range(2))
    log, config = LOGS / (name + ".log"), CACHE / (name + ".yaml")
    config.write_text(json.dumps({  # which is YAML, too
        "services": {"sdk": {"profile": profile, "pass": ["path"], "auth": ["keys"], "auth-from": [sends]}},
        "backends": {"sdk": {"service": "sdk", "url": backend, "connections": 4, "tls-ca": str(files[0]),
                             "headers": {sends.removeprefix("header:") if sends.startswith("header:") else "Authorization": own[0] + "env:WSBOUNCER_SECRET_SDK"}}},
    }, indent=2))
    added = subprocess.run([str(binary), "key", "add", "sdk", "--tenant", "sdks", "--database", str(config), "-o", "json"],
                           env=clean_environment(), capture_output=True, text=True)
    if added.returncode:
        raise Failure("no key: " + added.stderr)
    key = json.loads(added.stdout)["key"]
    command = [binary, "serve", "--database", config, "--admin", admin, "--state-directory", CACHE / "state",
               "--tls-listen", listen, "--tls-cert", files[0], "--tls-key", files[1], "--drain-timeout", "0s"]
    with running(command, log, {"WSBOUNCER_SECRET_SDK": own[1]}, stdout=subprocess.DEVNULL) as process:
        wait_ok(process, log, "http://%s/healthz" % admin)
        yield "wss://" + listen, key
    said = log.read_text(errors="replace")
    if any(secret in said for secret in (key, own[1])):
        raise Failure("%s has a key" % log)


def client(command, name, trust=None, **arguments):
    """Run an SDK's client to its end; returns what it reports, or why there is no report, as a text. Trust is a certificate that it trusts."""
    log = LOGS / (name + ".log")
    command = list(command)
    for key, value in arguments.items():
        command += ["--" + key, value]
    extra = {"NODE_EXTRA_CA_CERTS": str(trust), "SSL_CERT_FILE": str(trust)} if trust else {}
    with running(command, log, extra, stdout=subprocess.PIPE, text=True) as process:
        try:
            out, _ = process.communicate(timeout=CLIENT_TIMEOUT)
        except subprocess.TimeoutExpired:
            return "did not end within %d s" % CLIENT_TIMEOUT
    if process.returncode:
        return "ended with status %d:\n%s" % (process.returncode, tail(log))
    try:
        return json.loads(out)
    except ValueError:
        return "reported something else than JSON: %.200r" % out
