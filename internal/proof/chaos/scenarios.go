package chaos

import (
	"net/http"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// scenario is one hostile server, client, operator or machine; the fields that are set say which. It is static.
type scenario struct {
	name, about string

	private bool // each connection is dialed for one client

	// A hostile server, in a service beside a healthy one: behave handles each connection, or simulated has the settings of a
	// simulated server. Sessions on it may end as allow says.
	protocol  string // what the sessions speak; default vosk
	profile   string // default: the protocol's
	behave    func(v *visit)
	simulated *sim.Options
	allow     allowance

	// A hostile client: one visit, repeated during the whole run. It visits the service of that name, or a service that has only
	// the hostile server of this scenario. effect is what most visits come to; nil for no more than their end.
	attack func(a *attack) error
	visits string
	effect effect

	// An operator's change and its repair, repeated during the whole run.
	operate func(o *operator) error

	// A proxy of its own, with too little of some resource.
	machine *machine

	// Many hostile clients at once, against a proxy of its own.
	siege *siege
}

// allowance says how a session on a hostile server may end.
type allowance struct {
	statuses []int             // refusals
	codes    []frame.CloseCode // in addition to 1011 and 1013
	kinds    []string          // hunt's kinds of failures that have neither a status nor a code
	results  bool              // results may be lost, repeated or foreign, since the server itself causes that
	// refusal says that the server answers the handshake. On a connection for one client that answer belongs to the client, and
	// the next client still goes to the server.
	refusal bool
}

// everywhere are the hostile servers that run twice: with shared connections, and with connections dialed for one client.
var everywhere = []scenario{
	{
		name: "says-and-closes", about: "sends a message and close 1008 in the TCP segment of the 101",
		behave: sayAndClose, allow: allowance{codes: []frame.CloseCode{frame.PolicyViolation}, results: true, refusal: true},
	},
	{
		name: "closes-at-once", about: "sends close 1008 in the TCP segment of the 101",
		behave: closeBehind101, allow: allowance{codes: []frame.CloseCode{frame.PolicyViolation}, refusal: true},
	},
	{name: "refuses-401", about: "answers HTTP 401 to each upgrade request", behave: refuses(401), allow: allowance{statuses: []int{401}, refusal: true}},
	{name: "refuses-403", about: "answers HTTP 403 to each upgrade request", behave: refuses(403), allow: allowance{statuses: []int{403}, refusal: true}},
	{name: "refuses-404", about: "answers HTTP 404 to each upgrade request", behave: refuses(404), allow: allowance{statuses: []int{404}, refusal: true}},
	{name: "refuses-429", about: "answers HTTP 429 to each upgrade request", behave: refuses(429), allow: allowance{statuses: []int{429}, refusal: true}},
	{name: "refuses-500", about: "answers HTTP 500 to each upgrade request", behave: refuses(500), allow: allowance{statuses: []int{500}}},
	{name: "refuses-503", about: "answers HTTP 503 to each upgrade request", behave: refuses(503), allow: allowance{statuses: []int{503}}},
	{name: "ends-1011", about: "closes every session at once with 1011", behave: ends(closing(frame.InternalError, reason))},
	{name: "silent", about: "accepts the connection and says nothing", behave: silent, allow: allowance{statuses: []int{503}}},
	{name: "resets", about: "accepts the connection and resets it", behave: resets},
}

// unsupported is the close code for data of a kind that cannot be accepted.
const unsupported = frame.CloseCode(1003)

// servers are the other hostile servers.
var servers = []scenario{
	{name: "too-much-at-once", about: "begins with a message of 100 KiB", behave: tooMuchAtOnce, allow: allowance{results: true}},
	{
		name: "ends-1002", about: "closes every session at once with 1002",
		behave: ends(closing(frame.ProtocolError, reason)), allow: allowance{codes: []frame.CloseCode{frame.ProtocolError}},
	},
	{
		name: "ends-1003", about: "closes every session at once with 1003",
		behave: ends(closing(unsupported, reason)), allow: allowance{codes: []frame.CloseCode{unsupported}},
	},
	{
		name: "ends-1007", about: "closes every session at once with 1007",
		behave: ends(closing(frame.InvalidPayload, reason)), allow: allowance{codes: []frame.CloseCode{frame.InvalidPayload}},
	},
	{name: "close-of-one-byte", about: "sends a close frame with half a code", behave: ends(plain(frame.Close, []byte{3}))},
	{name: "close-1005", about: "sends a close frame with a code that may not be sent", behave: ends(plain(frame.Close, []byte{3, 0xed}))},
	{
		name: "close-bad-utf8", about: "sends a close frame with a reason that is not UTF-8",
		behave: ends(plain(frame.Close, []byte{3, 0xf3, 0xff, 0xfe})),
	},
	{name: "masked", about: "answers with masked frames", behave: masked},
	{
		name: "stalls-in-frame", about: "stops in the middle of a frame",
		behave: stallsInFrame, allow: allowance{kinds: []string{hunt.EndWithoutClose, hunt.Reset}},
	},
	{
		name: "answers-twice", about: "answers each message twice", protocol: sim.Echo,
		behave: echoes(twice), allow: allowance{results: true},
	},
	{
		name: "answers-late", about: "answers up to a second late", protocol: sim.Echo,
		behave: echoes(late), allow: allowance{results: true},
	},
	{
		name: "answers-foreign", about: "answers with the results of another session", protocol: sim.Echo,
		behave: echoes(foreign), allow: allowance{results: true},
	},
	{
		name: "says-more", about: "sends unsolicited messages after answers", protocol: sim.Echo,
		simulated: &sim.Options{Fail: sim.FailOptions{Late: 0.3}}, allow: allowance{results: true},
	},
	{
		name: "greets-late", about: "greets up to two seconds after the upgrade", protocol: sim.Echo,
		behave: greetsLate, allow: allowance{results: true},
	},
	{name: "never-pongs", about: "does not answer pings", protocol: sim.Echo, behave: neverPongs},
	{
		name: "stalls", about: "sometimes stops answering, pings included",
		simulated: &sim.Options{Fail: sim.FailOptions{Stall: 0.1}}, allow: allowance{kinds: []string{hunt.Timeout}},
	},
	{
		name: "dies-silently", about: "sometimes stops answering, except for pings",
		simulated: &sim.Options{Nasty: sim.NastyOptions{SilentDeath: 0.1}}, allow: allowance{kinds: []string{hunt.Timeout}},
	},
	{
		name: "breaks-off", about: "sometimes ends the stream in the middle of a frame",
		simulated: &sim.Options{Fail: sim.FailOptions{MidFrame: 0.2}}, allow: allowance{kinds: []string{hunt.EndWithoutClose, hunt.Reset}},
	},
	{
		name: "busy-at-times", about: "refuses upgrades with 503 for three of every six seconds",
		simulated: &sim.Options{Admit: busyAtTimes()},
	},
}

// clients are the hostile clients.
var clients = []scenario{
	{name: "bad-keys", about: "sends keys that the server refuses with 401, beside good ones", attack: badKey, visits: "keys", effect: isRefused},
	{
		name: "busy-and-gone", about: "sends a message and a close frame together to a server that reports that it is full",
		profile: "busy", behave: alwaysBusy, attack: upgraded(closesWithoutWaiting), effect: enters,
	},
	{name: "vanishes", about: "resets the connection at any point", attack: vanishes, visits: "vosk", effect: enters},
	{name: "stalls-reading", about: "sends without end and reads nothing", attack: upgraded(stallsReading), visits: "echo", effect: enters},
	{name: "byte-by-byte", about: "sends one byte at a time", attack: byteByByte, visits: "echo", effect: endsRight},
	{name: "half-closes", about: "ends its direction of the stream", attack: upgraded(halfCloses), visits: "echo", effect: enters},
	{name: "huge-frame", about: "sends a frame over the limit", visits: "echo", effect: endsRight, attack: breaks(frame.MessageTooBig, func(a *attack) []byte {
		return frame.AppendHeader(nil, frame.Header{Fin: true, Opcode: frame.Binary, Masked: true, Mask: 1, Length: 1 << 40})
	})},
	{name: "bad-utf8", about: "sends text that is not UTF-8", visits: "echo", effect: endsRight, attack: breaks(frame.InvalidPayload, func(a *attack) []byte {
		return a.clientFrame(true, frame.Text, []byte("\xff\xfe"))
	})},
	{name: "broken-frames", about: "sends frames that RFC 6455 forbids", visits: "echo", effect: endsRight, attack: breaks(frame.ProtocolError, brokenFrame)},
	{name: "not-masked", about: "sends frames without a mask", visits: "echo", effect: endsRight, attack: breaks(frame.ProtocolError, func(*attack) []byte {
		return plain(frame.Text, []byte("without a mask"))
	})},
	{name: "pings", about: "sends thousands of pings", attack: upgraded(pingsWithoutEnd), visits: "echo", effect: enters},
	{name: "never-asks", about: "sends an upgrade request that never ends", attack: neverEndsRequest, visits: "echo"},
	{name: "says-nothing", about: "connects and sends nothing", attack: staysSilent, visits: "echo"},
}

// operators are the changes of the configuration.
var operators = []scenario{
	{name: "file-in-pieces", about: "rewrites the file in place, piece by piece", operate: (*operator).rewriteInPieces},
	{name: "file-emptied", about: "empties the file for a moment", operate: (*operator).emptyFile},
	{name: "file-removed", about: "removes the file for a moment", operate: (*operator).removeFile},
	{name: "file-broken", about: "writes an invalid file for a moment", operate: (*operator).breakFile},
	{name: "drains", about: "drains a backend and enables it again", operate: (*operator).drain},
	{name: "removes", about: "removes a backend and adds it again", operate: (*operator).remove},
	{name: "caps", about: "lowers and raises a cap", operate: (*operator).resize},
	{name: "wrong-address", about: "gives a backend an address where nothing listens, and then its own again", operate: (*operator).misdirect},
}

// machines are proxies with too little of some resource.
var machines = []scenario{
	{
		name: "few-descriptors", about: "a proxy with few file descriptors, and clients that use them up",
		protocol: sim.Vosk, profile: "one-shot", machine: &machine{descriptors: 64, flood: 150},
	},
	{name: "collections", protocol: sim.Echo, about: "a proxy whose garbage collector always runs", machine: &machine{environment: []string{"GOGC=1"}}},
}

// scenarios returns all of them.
func scenarios() (all []scenario) {
	all = append(all, clients...)
	all = append(all, everywhere...)
	for _, s := range everywhere {
		s.name, s.about, s.protocol = "private-"+s.name, s.about+", on connections for one client", sim.Deepgram
		s.private = true
		all = append(all, s)
	}
	all = append(all, servers...)
	all = append(all, operators...)
	all = append(all, machines...)
	return append(all, sieges...)
}

// kind returns which part of the scenario is hostile.
func (s *scenario) kind() string {
	switch {
	case s.attack != nil:
		return "client"
	case s.operate != nil:
		return "operator"
	case s.machine != nil:
		return "machine"
	case s.siege != nil:
		return "siege"
	}
	return "server"
}

// isForClient reports whether the answers of the hostile server belong to its clients.
func (s *scenario) isForClient() bool { return s.private && s.allow.refusal }

// permits reports whether a session that reached no healthy server may end with this outcome.
func (a *allowance) permits(o *hunt.Outcome) bool {
	if o.Mute || o.Foreign+o.Lost+o.Twice > 0 {
		return a.results
	}
	switch {
	case o.Kind == "":
		return true
	case o.Status != 0:
		return slices.Contains(a.statuses, o.Status)
	case o.Code == frame.InternalError || o.Code == frame.TryAgainLater:
		return true
	case o.Code != 0:
		return slices.Contains(a.codes, o.Code)
	}
	return slices.Contains(a.kinds, o.Kind)
}

// badKeyStatus refuses upgrades whose key is bad.
func badKeyStatus(r *http.Request) int {
	if strings.HasPrefix(r.URL.Query().Get("key"), "good") {
		return 0
	}
	return http.StatusUnauthorized
}
