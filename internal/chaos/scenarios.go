package chaos

import (
	"net/http"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/hunt"
	"github.com/wsbouncer/wsbouncer/internal/sim"
)

// scenario is one hostile server, client, operator or machine; which of them follows from the fields that are set.
type scenario struct {
	name, about string

	private bool // connections are for one client

	// A hostile server, in a service beside a healthy one: behave is what it does to each connection, or simulated are the
	// settings of a simulated server. Sessions that land on it may end as it says.
	protocol  string // what the sessions speak; default vosk
	profile   string // default: the protocol's
	behave    func(v *visit)
	simulated *sim.Options
	allow     allowance

	// A hostile client: one visit, which is carried out again and again. It visits the service with that name, or one of the
	// scenario's hostile server alone.
	attack func(a *attack) error
	visits string

	// An operator's change and its repair, carried out again and again.
	operate func(o *operator) error

	// A proxy of its own, on a machine that is short of something.
	machine *machine
}

// allowance is what a session on a hostile server may see.
type allowance struct {
	statuses []int             // refusals
	codes    []frame.CloseCode // beside 1011 and 1013
	kinds    []string          // of hunt: failures without either
	results  bool              // results that are lost, there twice or foreign: they are the server's own
	// refusal says that what the server says is an answer to the handshake. With a connection for one client it belongs to that
	// client, and nothing keeps the next one from the server.
	refusal bool
}

// everywhere are the hostile servers that run twice: with shared connections, and with connections dialed for one client.
var everywhere = []scenario{
	{
		name: "says-and-closes", about: "message and close 1008 in the segment of the 101",
		behave: sayAndClose, allow: allowance{codes: []frame.CloseCode{frame.PolicyViolation}, results: true, refusal: true},
	},
	{
		name: "closes-at-once", about: "close 1008 alone in the segment of the 101",
		behave: closeBehind101, allow: allowance{codes: []frame.CloseCode{frame.PolicyViolation}, refusal: true},
	},
	{name: "refuses-401", about: "HTTP 401 to each upgrade", behave: refuses(401), allow: allowance{statuses: []int{401}, refusal: true}},
	{name: "refuses-403", about: "HTTP 403 to each upgrade", behave: refuses(403), allow: allowance{statuses: []int{403}, refusal: true}},
	{name: "refuses-404", about: "HTTP 404 to each upgrade", behave: refuses(404), allow: allowance{statuses: []int{404}, refusal: true}},
	{name: "refuses-429", about: "HTTP 429 to each upgrade", behave: refuses(429), allow: allowance{statuses: []int{429}, refusal: true}},
	{name: "refuses-500", about: "HTTP 500 to each upgrade", behave: refuses(500), allow: allowance{statuses: []int{500}}},
	{name: "refuses-503", about: "HTTP 503 to each upgrade", behave: refuses(503), allow: allowance{statuses: []int{503}}},
	{name: "ends-1011", about: "ends every session at once with 1011", behave: ends(closing(frame.InternalError, reason))},
	{name: "silent", about: "accepts the connection and says nothing", behave: silent, allow: allowance{statuses: []int{503}}},
	{name: "resets", about: "accepts the connection and resets it", behave: resets},
}

// unsupported is the close code for data of a kind that cannot be accepted.
const unsupported = frame.CloseCode(1003)

// servers are the other hostile servers.
var servers = []scenario{
	{name: "too-much-at-once", about: "begins with a message of 100 KiB", behave: tooMuchAtOnce, allow: allowance{results: true}},
	{
		name: "ends-1002", about: "ends every session at once with 1002",
		behave: ends(closing(frame.ProtocolError, reason)), allow: allowance{codes: []frame.CloseCode{frame.ProtocolError}},
	},
	{
		name: "ends-1003", about: "ends every session at once with 1003",
		behave: ends(closing(unsupported, reason)), allow: allowance{codes: []frame.CloseCode{unsupported}},
	},
	{
		name: "ends-1007", about: "ends every session at once with 1007",
		behave: ends(closing(frame.InvalidPayload, reason)), allow: allowance{codes: []frame.CloseCode{frame.InvalidPayload}},
	},
	{name: "close-of-one-byte", about: "close frame with half a code", behave: ends(plain(frame.Close, []byte{3}))},
	{name: "close-1005", about: "close frame with a code that may not be sent", behave: ends(plain(frame.Close, []byte{3, 0xed}))},
	{
		name: "close-bad-utf8", about: "close frame with a reason that is no UTF-8",
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
		name: "answers-late", about: "answers up to a second later", protocol: sim.Echo,
		behave: echoes(late), allow: allowance{results: true},
	},
	{
		name: "answers-foreign", about: "answers with what is another session's", protocol: sim.Echo,
		behave: echoes(foreign), allow: allowance{results: true},
	},
	{
		name: "says-more", about: "says something that nobody asked for behind answers", protocol: sim.Echo,
		simulated: &sim.Options{Fail: sim.FailOptions{Late: 0.3}}, allow: allowance{results: true},
	},
	{
		name: "greets-late", about: "greets up to two seconds after the upgrade", protocol: sim.Echo,
		behave: greetsLate, allow: allowance{results: true},
	},
	{name: "never-pongs", about: "answers no ping", protocol: sim.Echo, behave: neverPongs},
	{
		name: "stalls", about: "stops answering anything at times, pings included",
		simulated: &sim.Options{Fail: sim.FailOptions{Stall: 0.1}}, allow: allowance{kinds: []string{hunt.Timeout}},
	},
	{
		name: "dies-silently", about: "stops answering at times, but for pings",
		simulated: &sim.Options{Nasty: sim.NastyOptions{SilentDeath: 0.1}}, allow: allowance{kinds: []string{hunt.Timeout}},
	},
	{
		name: "breaks-off", about: "ends the stream in the middle of a frame at times",
		simulated: &sim.Options{Fail: sim.FailOptions{MidFrame: 0.2}}, allow: allowance{kinds: []string{hunt.EndWithoutClose, hunt.Reset}},
	},
	{
		name: "busy-at-times", about: "refuses upgrades with 503 for three seconds of six",
		simulated: &sim.Options{Admit: busyAtTimes()},
	},
}

// clients are the hostile clients.
var clients = []scenario{
	{name: "bad-keys", about: "keys that the server refuses with 401, beside good ones", attack: badKey, visits: "keys"},
	{
		name: "busy-and-gone", about: "a message and a close frame at once, to a server that says that it is full",
		profile: "busy", behave: alwaysBusy, attack: saysAndGoes,
	},
	{name: "vanishes", about: "resets the connection anywhere", attack: vanishes, visits: "vosk"},
	{name: "stalls-reading", about: "sends without end and reads nothing", attack: stallsReading, visits: "echo"},
	{name: "byte-by-byte", about: "sends one byte at a time", attack: byteByByte, visits: "echo"},
	{name: "half-closes", about: "ends its direction of the stream", attack: halfCloses, visits: "echo"},
	{name: "huge-frame", about: "a frame over the limit", visits: "echo", attack: breaks(frame.MessageTooBig, func(a *attack) []byte {
		return frame.AppendHeader(nil, frame.Header{Fin: true, Opcode: frame.Binary, Masked: true, Mask: 1, Length: 1 << 40})
	})},
	{name: "bad-utf8", about: "text that is no UTF-8", visits: "echo", attack: breaks(frame.InvalidPayload, func(a *attack) []byte {
		return a.say(true, frame.Text, []byte("\xff\xfe"))
	})},
	{name: "broken-frames", about: "frames that RFC 6455 forbids", visits: "echo", attack: breaks(frame.ProtocolError, brokenFrame)},
	{name: "not-masked", about: "frames without a mask", visits: "echo", attack: breaks(frame.ProtocolError, func(*attack) []byte {
		return plain(frame.Text, []byte("without a mask"))
	})},
	{name: "pings", about: "thousands of pings", attack: pingsWithoutEnd, visits: "echo"},
	{name: "never-asks", about: "an upgrade request without an end", attack: neverAsks, visits: "echo"},
	{name: "says-nothing", about: "connects, and nothing else", attack: saysNothing, visits: "echo"},
}

// operators are the changes of the configuration.
var operators = []scenario{
	{name: "file-in-pieces", about: "rewrites the file in place, piece by piece", operate: (*operator).rewriteInPieces},
	{name: "file-emptied", about: "empties the file for a moment", operate: (*operator).emptyFile},
	{name: "file-removed", about: "removes the file for a moment", operate: (*operator).removeFile},
	{name: "file-broken", about: "writes what is not valid for a moment", operate: (*operator).breakFile},
	{name: "drains", about: "drains a backend and enables it again", operate: (*operator).drain},
	{name: "removes", about: "removes a backend and adds it again", operate: (*operator).remove},
	{name: "caps", about: "lowers and raises a cap", operate: (*operator).resize},
	{name: "wrong-address", about: "gives a backend an address where nobody listens, and its own again", operate: (*operator).misdirect},
}

// machines are proxies that are short of something.
var machines = []scenario{
	{
		name: "few-descriptors", about: "a proxy with few descriptors, and clients that take them",
		protocol: sim.Vosk, profile: "one-shot", machine: &machine{descriptors: 64, flood: 150},
	},
	{name: "collections", protocol: sim.Echo, about: "a proxy that collects garbage all the time", machine: &machine{environment: []string{"GOGC=1"}}},
}

// scenarios returns all of them.
func scenarios() (all []scenario) {
	all = append(all, clients...)
	all = append(all, everywhere...)
	for _, s := range everywhere {
		s.name, s.about, s.protocol = "private-"+s.name, s.about+", to connections for one client", sim.Deepgram
		s.private = true
		all = append(all, s)
	}
	all = append(all, servers...)
	all = append(all, operators...)
	return append(all, machines...)
}

// kind says in a word who is hostile.
func (s *scenario) kind() string {
	switch {
	case s.attack != nil:
		return "client"
	case s.operate != nil:
		return "operator"
	case s.machine != nil:
		return "machine"
	}
	return "server"
}

// theirs tells whether what the hostile server says is its clients' own affair.
func (s *scenario) theirs() bool { return s.private && s.allow.refusal }

// permits tells whether a session that no healthy server has heard may have ended so.
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
