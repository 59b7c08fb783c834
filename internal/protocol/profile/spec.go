package profile

import (
	"time"
)

// spec holds what a profile's YAML says, including what it inherits and the defaults. It has the YAML's structure; docs/reference/write-a-profile.md
// explains every key.
type spec struct {
	name string
	at   place            // of the name
	own  map[string]place // of the values that the profile sets itself, by the path of their keys

	from    string
	summary string
	source  string
	reason  string
	doubt   string

	reuse  Reuse
	unsafe risks

	predial     Predial
	subprotocol string
	lookalike   string
	setup       []Message
	greeting    []matcher
	ready       []matcher
	busy        []matcher

	end        endSpec
	leave      leaveSpec
	replace    bool
	early      Early
	sticky     []matcher
	unanswered []matcher
	answers    []matcher
	tag        tagSpec
	stateless  bool
	reset      resetSpec

	keepalive keepaliveSpec
	timeouts  timeoutsSpec
	limits    Limits
	maxAge    time.Duration // for which the server lets a connection live, or the session on it; 0 for no limit
	goaway    []matcher     // messages by which the server says that it ends the session soon, or now
	capacity  Capacity
	variant   variantSpec
	affinity  Affinity
	tell      Tell
	failover  Failover
	output    audioSpec // of the server
	script    Script
}

// risks is a set of the risks that a profile accepts.
type risks uint8

const (
	acceptQuiet risks = 1 << iota
	acceptDoubt
	acceptBlind
)

// riskNames are the words for the risks, in the order of their bits.
var riskNames = []string{"quiet", "doubt", "blind"}

type endSpec struct {
	client []matcher // the client's end message
	closes bool      // the server closes the connection after it
	resets bool      // it has the effect of the reset
	// timeout is for each answer up to the client's last result, if the reset replaces the end message.
	timeout time.Duration
}

// leaveSpec says how the proxy ends a session on the server whose client has left without its end message.
type leaveSpec struct {
	send    []Message
	until   []matcher     // the server's last message after that; none if it closes the connection
	timeout time.Duration // for all of it
}

type resetSpec struct {
	send []Message
	untilSpec
	settle  time.Duration
	timeout time.Duration
}

// untilSpec says how the proxy recognizes that the reset has succeeded.
type untilSpec struct {
	until []matcher
	count int  // replies to the messages of send; 0 for one each
	quiet bool // the server sends no acknowledgement: wait only for settle without messages
}

type tagSpec struct {
	start     []matcher // the client's message that begins a task
	continues bool      // or says more about one that is not done
	end       []matcher // the client's last message of a task, with its tag
	path      jsonPath  // to the tag in that message
	server    jsonPath  // to the tag in the server's messages; nil if it is the same
	done      []matcher
	failed    []matcher
}

// toServer returns the path to the tag in the server's messages.
func (s *tagSpec) toServer() jsonPath {
	if s.server == nil {
		return s.path
	}
	return s.server
}

type keepaliveSpec struct {
	ping   time.Duration
	send   []Message
	every  time.Duration
	answer []matcher
}

type timeoutsSpec struct {
	greeting time.Duration
	ready    time.Duration
	busy     time.Duration // how long a full server may take to say so, while the client's second message waits; 0 for no wait
}

// Limits are a profile's limits. 0 means no limit, except for Message and Greeting, which are never 0.
type Limits struct {
	Sessions int           // sessions that a connection serves
	Age      time.Duration // the longest life of a connection
	Idle     time.Duration // the longest time that a connection waits for its next session
	Message  int           // bytes; longer messages are not inspected
	Greeting int           // bytes that a server may send before the first session
}

// The defaults that are not the zero value.
const (
	defaultSettle         = 0
	defaultTimeout        = 5 * time.Second
	defaultEndTimeout     = time.Minute // a busy server works through its backlog first
	defaultGreeting       = 10 * time.Second
	defaultReady          = 30 * time.Second
	defaultMessage        = 64 << 10
	defaultGreetingLength = 16 << 10
	defaultVariants       = 8
)

// newSpec returns a profile that sets nothing: it is one-shot.
func newSpec() spec {
	return spec{
		own:      make(map[string]place),
		leave:    leaveSpec{timeout: defaultTimeout},
		reset:    resetSpec{timeout: defaultTimeout},
		end:      endSpec{timeout: defaultEndTimeout},
		timeouts: timeoutsSpec{greeting: defaultGreeting, ready: defaultReady},
		limits:   Limits{Message: defaultMessage, Greeting: defaultGreetingLength},
		capacity: Capacity{Every: defaultEvery},
		variant:  variantSpec{max: defaultVariants},
		affinity: Affinity{keep: defaultAffinity},
		failover: newFailover(),
		output:   newFailover().audio,
		script:   newScript(),
	}
}

// place returns the place of the first of these keys that the profile sets itself, or of its name if it sets none. (An inherited value is
// checked in the profile that sets it.)
func (s *spec) place(keys ...string) place {
	for _, key := range keys {
		if at, ok := s.own[key]; ok {
			return at
		}
	}
	return s.at
}

// Predial says whether connections may be opened before clients arrive.
type Predial uint8

const (
	// PredialIdle: yes. An idle connection costs the server little.
	PredialIdle Predial = iota
	// PredialCostsSlot: yes, but each idle connection takes one of the server's places, or costs money.
	PredialCostsSlot
	// PredialNever: no. The proxy dials when a client arrives.
	PredialNever
	// PredialWithKey: only if the backend's own settings contain the key that the server requires in the handshake. If not, the proxy
	// dials when a client arrives, with the client's key.
	PredialWithKey
)

var predialNames = []string{"idle", "costs-slot", "never", "with-key"}

// String returns the word for it in YAML.
func (p Predial) String() string { return predialNames[p] }

// Early says what happens to a connection whose client left without its end message.
type Early uint8

const (
	// EarlyReset: the proxy resets it, and drops what the server still sends to the session.
	EarlyReset Early = iota
	// EarlyDiscard: the proxy closes it.
	EarlyDiscard
)

var earlyNames = []string{"reset", "discard"}

// String returns the word for it in YAML.
func (e Early) String() string { return earlyNames[e] }

// Reuse is the way in which the proxy proves that a connection is clean after a session.
type Reuse int

const (
	// OneShot: it does not. A connection serves one session and is replaced.
	OneShot Reuse = iota
	// Lockstep: the server answers every message with exactly one message, in order, and sends nothing else. A connection is clean
	// when as many whole messages have come back as were sent; those of the reset are the last. (A ping would prove nothing: many
	// servers answer pings before queued messages.)
	Lockstep
	// Fenced: the server acknowledges the reset in order, after everything that it sends to the session, and the proxy can
	// distinguish the acknowledgement from any answer to the client.
	Fenced
	// Tagged: every message from the server carries the tag of a task that the client began, and a task has a last message.
	Tagged
	// Quiet: the server acknowledges the reset, but the acknowledgement may overtake late results, so the proxy waits for a time
	// without messages. That proves nothing, so a profile must accept it with "unsafe: quiet".
	Quiet
)

var reuseNames = []string{"one-shot", "lockstep", "fenced", "tagged", "quiet"}

// String returns the word for it in YAML.
func (r Reuse) String() string { return reuseNames[r] }
