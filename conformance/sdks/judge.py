"""What a client should have reported, and whether it reported the same through the proxy as directly."""

import json
import re

# What is another in each session. All else has to be equal, times of audio included.
IDS = {"id", "request_id", "event_id"}
CLOCKS = {"created", "expires_at", "session_duration_seconds"}
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
HEARD = re.compile(r"heard-(\d+)B")


def session(report, expected, audio_bytes, word, speaks=0, translates=False):
    """The faults of a session with a good key, as a list of texts. Speaks is how many bytes of audio the service is to speak, if it does, and
    translates whether the finals translate the partials: the simulated service spells words backwards."""
    if isinstance(report, str):
        return [report]
    if report["error"]:
        return ["error: %s" % describe(report["error"])]
    faults = ["the SDK's own model objects to %s" % fault for fault in dict.fromkeys(report["invalid"])]
    events = report["events"]
    roles = [event["role"] for event in events]
    for role, least, most in expected:
        if not least <= roles.count(role) <= most:
            faults.append("%d x %s; expected %d to %d" % (roles.count(role), role, least, most))
    if "start" in roles and roles[0] != "start":
        faults.append("the first event is %s" % events[0]["type"])
    if roles[-1:] != ["end"]:
        faults.append("the last event is %s" % (events[-1]["type"] if events else "none"))
    finals = [event["text"] or "" for event in events if event["role"] == "final"]
    if speaks:
        if report["audio"][0] != speaks:
            faults.append("%d bytes were spoken, not %d" % (report["audio"][0], speaks))
        if any(finals) and not all(word in text.split() for text in finals):
            faults.append("the setting %r is not in each text: %s" % (word, finals))
        return faults
    if translates:
        said = " ".join(event["text"] for event in events if event["role"] == "partial").split()
        if not said or [w[::-1] for w in said] != " ".join(finals).split():
            faults.append("the translation is %s; what was said is %s" % (finals, said))
        return faults
    heard = sum(int(count) for text in finals for count in HEARD.findall(text))
    if heard != audio_bytes:
        faults.append("the final transcripts tell of %d bytes of audio; %d were sent" % (heard, audio_bytes))
    if not all(word in text.split() for text in finals):
        faults.append("the boosted word %r is not in each final transcript: %s" % (word, finals))
    return faults


def refusal(report, expected):
    """The faults of a session with a bad key: the SDK's error has to have these facts, regular expressions for texts."""
    if isinstance(report, str):
        return [report]
    if not report["error"]:
        return ["no error, but %d events" % len(report["events"])]
    faults = []
    for fact, want in expected.items():
        got = report["error"].get(fact)
        if not (re.search(want, got) if isinstance(want, str) and isinstance(got, str) else got == want):
            faults.append("the error's %s is %r, not %r" % (fact, got, want))
    if [event for event in report["events"] if event["role"] != "other"]:
        faults.append("there are events: %s" % ", ".join(event["type"] for event in report["events"]))
    return faults


def difference(direct, proxied):
    """What differs between two reports, as a list of texts; empty if nothing does."""
    if isinstance(direct, str) or isinstance(proxied, str) or proxied["error"] and not direct["error"]:
        return []  # a fault of its own
    one, other = masked(direct), masked(proxied)
    if one["error"] != other["error"]:
        return ["error through the proxy: %s; directly: %s" % (describe(other["error"]), describe(one["error"]))]
    if direct.get("audio") != proxied.get("audio"):
        return ["audio through the proxy: %s; directly: %s" % (proxied.get("audio"), direct.get("audio"))]
    before, after = one["events"], other["events"]
    for at, (a, b) in enumerate(zip(before, after)):
        if a != b:
            return ["event %d through the proxy: %s; directly: %s" % (at, brief(b), brief(a))]
    if len(before) != len(after):
        return ["%d events through the proxy, %d directly" % (len(after), len(before))]
    return []


def masked(report):
    """The report without what is another in each session: the first id is <1> wherever it is, the next <2>, and so on."""
    names = {}

    def name(value):
        return "<%d>" % names.setdefault(value, len(names) + 1)

    def mask(value, key=None):
        if isinstance(value, dict):
            return {k: mask(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [mask(v) for v in value]
        if key in CLOCKS:
            return "<time>"
        if key in IDS and isinstance(value, str):
            return name(value)
        return UUID.sub(lambda found: name(found.group()), value) if isinstance(value, str) else value

    return {"events": mask(report["events"]), "error": mask(report["error"])}


def describe(error):
    return "none" if error is None else ", ".join("%s %s" % (k, brief(v).strip()) for k, v in error.items())


def brief(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) < 300 else text[:300] + " ..."


def counts(report):
    roles = [event["role"] for event in report["events"]]
    return ", ".join("%d %s" % (roles.count(role), role) for role in ("start", "partial", "final", "end") if role in roles)
