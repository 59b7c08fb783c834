"""Comparing Autobahn's verdicts case by case: none may be worse through the proxy than straight."""

import json

from processes import say

WIRE_LOGS = 8  # how many of the worse cases are shown frame by frame

# Autobahn's verdicts, best first. MISSING is ours: the case left no report.
VERDICTS = ["OK", "NON-STRICT", "INFORMATIONAL", "UNIMPLEMENTED",
            "WRONG CODE", "UNCLEAN", "FAILED BY CLIENT", "FAILED", "MISSING"]


def details(reports, summary):
    return json.loads((reports / summary["reportfile"]).read_text()) if summary else {}


def wire(report):
    """The frames of a case as lines, '>' what Autobahn sent; what it waited for; and how it ended."""
    for event in report["wirelog"]:
        kind = event[0]
        if kind in ("TF", "RF"):
            (size, payload), opcode, fin, rsv = event[1:5]
            yield "%s opcode %d%s%s, %d bytes%s" % (
                ">" if kind == "TF" else "<", opcode, "" if fin else ", more to come", ", rsv %d" % rsv if rsv else "",
                size, ": " + ascii(payload[:60]) if size else "")
        elif kind in ("CT", "KL", "TI"):
            yield {"CT": "wait %s s", "KL": "give up in %s s", "TI": "close in %s s"}[kind] % event[1]
        elif kind == "KLE":
            yield "gave up"
    yield "closed by %s, %s; code %s %s" % (
        "Autobahn" if report["closedByMe"] else "the other side", "clean" if report["wasClean"] else "not clean",
        report["remoteCloseCode"], ascii(report["remoteCloseReason"] or ""))


def verdict(summary):
    return (summary["behavior"], summary["behaviorClose"]) if summary else ("MISSING", "MISSING")


def rank(case, word, races):
    return VERDICTS.index("OK" if word == "NON-STRICT" and case in races else word)


def judge(case, straight, proxied, races):
    """'worse' if either the behaviour or the close is, else 'better' if either is, else 'same'."""
    pairs = [(rank(case, p, races), rank(case, s, races)) for s, p in zip(verdict(straight), verdict(proxied))]
    if any(p > s for p, s in pairs):
        return "worse"
    return "better" if any(p < s for p, s in pairs) else "same"


def case_order(case):
    return [int(part) for part in case.split(".")]


def compare(name, straight, proxied, reports, races):
    """Print what differs between straight and the target called name, whose reports are in that folder; returns how many
    cases are worse. In the races, OK and NON-STRICT are the same."""
    cases = {"worse": [], "better": [], "same": []}
    table, notes = [], []
    for case in sorted(set(straight) | set(proxied), key=case_order):
        s, p = straight.get(case), proxied.get(case)
        result = judge(case, s, p, races)
        cases[result].append(case)
        if result != "same":
            table.append((case, " / ".join(verdict(s)), " / ".join(verdict(p)), result))
            continue
        # Where Autobahn gives the same verdict, the events may still differ: worth a line, not a failure.
        for what in ("behavior", "result", "remoteCloseCode"):
            before, after = details(reports, s).get(what), details(reports, p).get(what)
            if before != after:
                notes.append("  %-8s %s: %s -> %s" % (case, what, before, after))

    say("\n%s against straight (behaviour / close)" % name)
    if table:
        table.insert(0, ("case", "straight", name, ""))
        widths = [max(len(row[i]) for row in table) for i in range(3)]
        for row in table:
            say("  %-*s  %-*s  %-*s  %s" % (widths[0], row[0], widths[1], row[1], widths[2], row[2], row[3]))
    if notes:
        say("counted as the same, but not the same events:")
        say("\n".join(notes))
    for case in cases["worse"][:WIRE_LOGS]:
        report = details(reports, proxied.get(case))
        if report:
            say("%s %s: %s %s" % (name, case, report["result"], report["resultClose"]))
            say("\n".join("    " + line for line in wire(report)))
    count = {result: len(names) for result, names in cases.items()}
    say("%s: %d cases, %d worse, %d better, %d same"
        % (name, sum(count.values()), count["worse"], count["better"], count["same"]))
    return count["worse"]
