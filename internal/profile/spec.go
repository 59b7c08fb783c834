package profile

import "time"

// spec is what a profile's YAML says, with what it inherits and with defaults filled in. Its shape is that of the YAML;
// docs/profiles.md explains every key.
type spec struct {
	name string
	at   place            // of the name
	own  map[string]place // of the values that the profile gives itself, by the path of their keys

	from    string
	summary string
	source  string
	reason  string
	doubt   string

	reuse  Reuse
	unsafe risks

	predial     Predial
	subprotocol string
	setup       []Message
	greeting    []matcher
	ready       []matcher
	busy        []matcher

	end        endSpec
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
	variant   variantSpec
}

// risks is a set of dangers that a profile accepts.
type risks uint8

const (
	acceptQuiet risks = 1 << iota
	acceptDoubt
	acceptBlind
)

// riskNames are the words for the risks, in the order of their bits.
var riskNames = []string{"quiet", "doubt", "blind"}

type endSpec struct {
	client []matcher // the client's own last message
	closes bool      // the server closes the connection then
	resets bool      // and it has the effect of the reset
}

type resetSpec struct {
	send    []Message
	until   []matcher
	count   int  // replies to what is sent; 0 for one each
	quiet   bool // no acknowledgement: only quiet is waited for
	settle  time.Duration
	timeout time.Duration
}

type tagSpec struct {
	start  []matcher // the client's message that begins a task
	path   jsonPath  // to the tag in it
	server jsonPath  // to the tag in what the server says
	done   []matcher
	failed []matcher
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
}

// Limits are what a profile limits. 0 is no limit, except where it says otherwise.
type Limits struct {
	Sessions int           // that a connection serves
	Age      time.Duration // of a connection
	Idle     time.Duration // that a connection waits for its next session
	Message  int           // bytes; longer messages are not looked into (never 0)
	Greeting int           // bytes that a server may send before it is ready (never 0)
}

// The defaults, where they are not the zero value.
const (
	defaultSettle   = 0
	defaultTimeout  = 5 * time.Second
	defaultGreeting = 10 * time.Second
	defaultReady    = 30 * time.Second
	defaultMessage  = 64 << 10
	defaultKept     = 16 << 10
	defaultVariants = 8
)

// newSpec returns a profile that says nothing: one-shot.
func newSpec() spec {
	return spec{
		own:      make(map[string]place),
		reset:    resetSpec{timeout: defaultTimeout},
		timeouts: timeoutsSpec{greeting: defaultGreeting, ready: defaultReady},
		limits:   Limits{Message: defaultMessage, Greeting: defaultKept},
		variant:  variantSpec{max: defaultVariants},
	}
}

// place returns where the first of the given keys stands that the profile gives itself, or else its name: what it
// inherits has been judged where it is written.
func (s *spec) place(keys ...string) place {
	for _, key := range keys {
		if at, ok := s.own[key]; ok {
			return at
		}
	}
	return s.at
}

// Predial says whether connections may be dialed before there is a client for them.
type Predial uint8

const (
	// PredialIdle: yes, a connection that waits costs the server nothing much.
	PredialIdle Predial = iota
	// PredialCostsSlot: yes, but each takes one of the server's places, or costs money, while it waits.
	PredialCostsSlot
	// PredialNever: no; a connection is dialed when a client is there for it.
	PredialNever
	// PredialWithKey: only where the backend's own settings carry the key that the server asks for in the handshake. Without it, a
	// connection is dialed when a client is there, with the client's.
	PredialWithKey
)

var predialNames = []string{"idle", "costs-slot", "never", "with-key"}

// String returns the word that YAML has for it.
func (p Predial) String() string { return predialNames[p] }

// Early says what becomes of a connection whose client left without its end message.
type Early uint8

const (
	// EarlyReset: it is reset; what the server still has to say is dropped.
	EarlyReset Early = iota
	// EarlyDiscard: it is closed.
	EarlyDiscard
)

var earlyNames = []string{"reset", "discard"}

// String returns the word that YAML has for it.
func (e Early) String() string { return earlyNames[e] }
