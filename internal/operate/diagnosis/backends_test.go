package diagnosis

import (
	"net/http"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// fails makes the second backend one that cannot be dialed for a reason.
func fails(reason string) func(*Facts) {
	return func(f *Facts) { unreachable(&f.Stats.Backends[1], reason) }
}

// opens makes the second backend one whose circuit is open for a reason.
func opens(reason string) func(*Facts) {
	return func(f *Facts) {
		b := &f.Stats.Backends[1]
		b.Usable, b.Circuit, b.CircuitReason, b.CircuitSince = false, "open", reason, since
	}
}

// answers is the reason of a dial that a server has answered with a status.
func answers(status int) string {
	err := handshake.StatusError{Status: status, Text: "no"}
	return err.Error()
}

var backendScenes = map[string]scene{
	"wrong key":           {fails(answers(http.StatusUnauthorized)), "backend-refusing backend gpu-2: it does not accept the proxy's credential: unreachable: server answered 401 Unauthorized instead of upgrading: no (12:00)"},
	"wrong key, for long": {opens(answers(http.StatusForbidden)), "backend-refusing backend gpu-2: it does not accept the proxy's credential: circuit open: server answered 403 Forbidden instead of upgrading: no (12:00)"},
	"wrong path":          {fails(answers(http.StatusNotFound)), "backend-wrong-protocol backend gpu-2: it does not speak the protocol of its profile: server answered 404 Not Found instead of upgrading: no (12:00)"},
	"no WebSocket":        {fails("reading the answer to the upgrade request: server did not answer with HTTP/1.1"), "backend-wrong-protocol backend gpu-2: it does not speak the protocol of its profile: reading the answer to the upgrade request: server did not answer with HTTP/1.1 (12:00)"},
	"another protocol": {func(f *Facts) {
		opens("connection lost before it served a session: unsolicited message")(f)
		f.Stats.Backends[1].Profile = "vosk"
	}, "backend-wrong-protocol backend gpu-2: it does not speak the protocol of the profile vosk: it sent a message that was not asked for (12:00)"},
	"an error":        {fails(answers(http.StatusBadGateway)), "backend-failing backend gpu-2: unreachable: server answered 502 Bad Gateway instead of upgrading: no (12:00)"},
	"broken sessions": {opens("5 sessions in a row were broken: EOF"), "backend-failing backend gpu-2: circuit open: 5 sessions in a row were broken: EOF (12:00)"},
	"gone, after its sessions broke": {func(f *Facts) {
		opens("5 sessions in a row were broken: EOF")(f)
		f.Stats.Backends[1].Reachable, f.Stats.Backends[1].Reason = false, "connection refused"
	}, "backend-unreachable backend gpu-2: circuit open: connection refused (12:00)"},
	"gone":       {opens("connection refused"), "backend-unreachable backend gpu-2: circuit open: connection refused (12:00)"},
	"not dialed": {fails("not dialed yet"), ""},
	"probe fails": {func(f *Facts) {
		b := &f.Stats.Backends[1]
		b.Usable, b.Probe, b.ProbeReason, b.ProbeSince = false, "down", "no answer", since
	}, "backend-probe backend gpu-2: probe fails: no answer (12:00)"},
	"outlier": {func(f *Facts) {
		b := &f.Stats.Backends[1]
		b.Usable, b.Outlier, b.OutlierReason, b.OutlierSince = false, true, "8 of 10 sessions failed", since
	}, "backend-ejected backend gpu-2: outlier: 8 of 10 sessions failed (12:00)"},
	"stalled": {func(f *Facts) {
		b := &f.Stats.Backends[1]
		b.Usable, b.Stalled, b.StalledReason, b.StalledSince = false, true, "no result for 5s", since
	}, "backend-stalled backend gpu-2: stalled: no result for 5s (12:00)"},
	"canary fails": {func(f *Facts) {
		b := &f.Stats.Backends[1]
		b.Usable, b.Canary, b.CanaryReason, b.CanarySince = false, "down", "no result within 10s", since
	}, "backend-canary backend gpu-2: canary fails: no result within 10s (12:00)"},
	"canary doubtful": {func(f *Facts) {
		b := &f.Stats.Backends[1]
		b.Canary, b.CanaryReason, b.CanarySince = "doubtful", "no result within 10s", since
	}, "canary-doubtful backend gpu-2: the canary fails, and has passed on no backend of the service, so it takes none out of service: no result within 10s (12:00)"},
	"flapping": {func(f *Facts) {
		opens("connection refused")(f)
		f.Recent.Flaps = map[BackendName]Flap{{"stt", "gpu-2"}: {Times: 4, First: since}}
	}, "backend-flapping backend gpu-2: it went out of health 4 times within minutes; now circuit open: connection refused (12:00)"},
	"flapping, and well now": {
		func(f *Facts) { f.Recent.Flaps = map[BackendName]Flap{{"stt", "gpu-2"}: {Times: 3, First: since}} },
		"backend-flapping backend gpu-2: it went out of health 3 times within minutes; now healthy (12:00)",
	},
	"draining": {func(f *Facts) { f.Stats.Backends[0].State = "draining" }, "backend-draining backend gpu-1: draining: 3 sessions left"},
	"disabled": {func(f *Facts) {
		f.Stats.Backends[0].State, f.Stats.Backends[0].Leased = "disabled", 0
	}, "backend-disabled backend gpu-1: disabled: it is empty"},
	"the server is full": {
		func(f *Facts) { b := &f.Stats.Backends[2]; b.Ceiling, b.FullAt, b.Leased = 20, 20, 20 },
		"backend-full backend gpu-3: the server says that it is full: 20 of 32 connections",
	},
	"a removed backend still has connections to the server": {func(f *Facts) { f.Stats.Backends[2].Ceiling = 20 }, ""},
	"the capacity cannot be read": {
		func(f *Facts) {
			f.Stats.Backends[2].Ceiling, f.Stats.Backends[2].Published = 20, &api.Published{Total: 20, At: since, Followed: true, Reason: "/x: total: 0 is absurd", Since: since}
		},
		"backend-capacity backend gpu-3: its capacity cannot be read, and the last one holds: /x: total: 0 is absurd (12:00)",
	},
	"the capacity was never read": {
		func(f *Facts) { f.Stats.Backends[2].Published = &api.Published{Followed: true, Reason: "404"} },
		"backend-capacity backend gpu-3: its capacity cannot be read, and connections-max holds, as none was ever read: 404",
	},
	"the ceiling follows the capacity": {
		func(f *Facts) {
			f.Stats.Backends[2].Ceiling, f.Stats.Backends[2].Published = 20, &api.Published{Total: 20, At: since, Followed: true}
		}, "",
	},
	"the server is full at its capacity, which the cap follows": {
		func(f *Facts) {
			b := &f.Stats.Backends[2]
			b.Ceiling, b.FullAt, b.Published = 18, 18, &api.Published{Total: 20, Strangers: 2, At: since, Followed: true}
		}, "",
	},
	"the server is full below its capacity, which the cap follows": {
		func(f *Facts) {
			b := &f.Stats.Backends[2]
			b.Ceiling, b.FullAt, b.Leased, b.Published = 12, 12, 12, &api.Published{Total: 20, At: since, Followed: true}
		},
		"backend-full backend gpu-3: the server says that it is full: 12 of 20 connections",
	},
	"the cap is above the capacity": {
		func(f *Facts) { f.Stats.Backends[2].Published = &api.Published{Total: 20, At: since} },
		"backend-capacity backend gpu-3: it publishes that it takes 20 sessions, and connections is 32",
	},
	"results come too late": {
		func(f *Facts) {
			b := &f.Stats.Backends[2]
			b.Ceiling, b.CeilingCause, b.CeilingSince, b.CeilingReason = 18, "lag", since, "results came 3.2s late at 24 sessions, over lag-limit 2s"
		},
		"backend-late backend gpu-3: results came 3.2s late at 24 sessions, over lag-limit 2s: it gets no new sessions above 18 of 32 (12:00)",
	},
	"the server was full": {
		func(f *Facts) { b := &f.Stats.Backends[2]; b.Ceiling, b.FullAt, b.Leased = 20, 20, 19 },
		"backend-full backend gpu-3: the server says that it is full: 20 of 32 connections (the last known value: no more have been tried since)",
	},
	"the server was full, and more are tried": {
		func(f *Facts) { b := &f.Stats.Backends[2]; b.Ceiling, b.FullAt, b.Leased = 23, 20, 20 },
		"backend-full backend gpu-3: the server says that it is full: 20 of 32 connections (the last known value: the proxy allows up to 23 again)",
	},
	"a cap below what is granted": {
		func(f *Facts) { f.Stats.Backends[1].Places = &api.Places{Grant: 3, Granted: 40, Cap: 32} },
		"backend-over-granted backend gpu-2: proxies have 40 of 32 places, until sessions end: its cap was lowered, or one is back that was taken for dead",
	},
	"no place": {func(f *Facts) {
		b := &f.Stats.Backends[1]
		b.Places, b.Reachable, b.Reason, b.Since = &api.Places{Granted: 30, Cap: 32}, false, "not dialed yet", since
	}, "backend-no-place backend gpu-2: not dialed yet: this proxy has no place there; 30 of 32 are granted (12:00)"},
}

// A server that answers as a WebSocket server, and speaks another protocol than its profile, has the profile shown; one whose URL is wrong is shown itself.
func TestCuresOfWrongProtocol(t *testing.T) {
	for reason, want := range map[string]string{
		"connection lost before it served a session: unsolicited message": "wsbouncer profile show vosk",
		answers(http.StatusNotFound):                                      "wsbouncer backend show gpu-2",
	} {
		f := well()
		opens(reason)(f)
		f.Stats.Backends[1].Profile = "vosk"
		if all := Find(f); len(all) != 1 || all[0].Cure != want {
			t.Errorf("%s: %+v; want the cure %s", reason, all, want)
		}
	}
}

// The command that cures a server which is full below its cap names the number that was seen, unless other proxies have connections, too.
func TestCureOfFullServer(t *testing.T) {
	for want, places := range map[string]*api.Places{
		"wsbouncer backend set gpu-3 --connections 20": nil,
		"wsbouncer backend set gpu-3 --connections N":  {Grant: 16, Granted: 32, Cap: 32},
	} {
		b, found := &api.Backend{Name: "gpu-3"}, new(findings)
		b.Cap, b.Ceiling, b.FullAt, b.Places = 32, 23, 20, places
		found.full(b, backend(b))
		if len(found.all) != 1 || found.all[0].Cure != want {
			t.Errorf("found %+v; want the cure %q", found.all, want)
		}
	}
}
