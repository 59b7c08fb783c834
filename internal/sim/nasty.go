package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/spelling"
)

// NastyOptions switch on what real servers have been seen to do to whoever uses their connections again, and what can go
// wrong between their sessions. The zero value is a server that does nothing of the kind. All but Full are probabilities
// from 0 (never) to 1 (always).
type NastyOptions struct {
	// LatePartials has a partial result come after the final one, or after the acknowledgement of the session's end, a few
	// milliseconds later where the server keeps the connection. So can sherpa-onnx's server in C++: results and "Done!" are
	// posted to different threads (read in its source).
	LatePartials float64
	// OvertakenFinal has the acknowledgement of the end overtake the final result before it. So can sherpa-onnx's server in C++,
	// for the same reason.
	OvertakenFinal float64
	// StickySettings has the settings of a session stay in force for the next one unless that sets them itself. The
	// simulated FunASR, Vosk (after the first audio) and Watson always do so, as the real ones do; this makes DashScope do
	// it. The other protocols have no settings that another session on the connection could change.
	StickySettings float64
	// ResetIgnored has a reset neither carried out nor answered, as one is by a server that does not know it: those of Vosk and
	// FunASR in C++ (the latter read in its source).
	ResetIgnored float64
	// ResetForeign has the acknowledgement of the connection's session before come again, in front of the results and the
	// acknowledgement that a reset is answered with, as a server would that answers from a queue or a thread which that session left
	// something in. Of no server is it known. Only a tag tells it from the true one, or waiting for more. Where the acknowledgement is
	// a result (Vosk), a client that is still there gets it: the server itself leaks then.
	ResetForeign float64
	// GreetingDelayed has what a server says before it takes audio come a tenth of a second late, as WhisperLive's is that loads
	// a model first.
	GreetingDelayed float64
	// SilentDeath is the probability, for each message, that the session dies on the server: nothing is answered any more,
	// but pings are, and the socket stays open. So it is with Kyutai's server when its model loop fails: that is only logged (read
	// in its source).
	SilentDeath float64
	// CloseMidMessage is the probability, for each result, that the server closes the connection (1011) behind the first
	// fragment of it. RFC 6455 allows it (section 5.4); a server that sends results in fragments does it when it fails meanwhile.
	CloseMidMessage float64
	// PunctuationMemory has FunASR's punctuation model keep the last sentence as context for the next one, across its
	// acknowledged end: the real server does, unless it was started with --punc_model "".
	PunctuationMemory float64
	// EarlyDone is the probability, for each piece of audio, that a generation of vLLM ends by itself, as it does at the
	// model's limit of tokens: audio and the end mark that arrive later stay in the queue.
	EarlyDone float64
	// Full is the number of sessions that the server takes at a time; others are told so in the protocol's own way, see
	// Protocol.Full. 0: no limit.
	Full int
}

// NastyHelp describes the words that ParseNasty takes, one per line.
const NastyHelp = `late-partials[:p]       a partial result comes after the final one (sherpa-onnx C++)
overtaken-final[:p]     the final result comes after the acknowledgement (sherpa-onnx C++)
sticky-settings[:p]     settings stay in force for the next session (DashScope; always with FunASR, Vosk and Watson)
reset-ignored[:p]       the server ignores a reset and does not answer it (FunASR C++)
reset-foreign[:p]       the server repeats the answer to the last reset before it answers a reset
greeting-delayed[:p]    the greeting comes 100 ms late (WhisperLive)
silent-death[:p]        the session dies at a message, but the server answers pings (Kyutai)
close-mid-message[:p]   the server closes after the first fragment of a result
punctuation-memory[:p]  FunASR's punctuation model remembers the last sentence
early-done[:p]          vLLM's generation ends by itself
full:n                  the server accepts n sessions at a time and refuses others as the protocol does
p is a probability from 0 to 1; the default is 1`

// nastyNames are the switches with a probability, by name.
var nastyNames = []struct {
	name  string
	field func(*NastyOptions) *float64
}{
	{"late-partials", func(n *NastyOptions) *float64 { return &n.LatePartials }},
	{"overtaken-final", func(n *NastyOptions) *float64 { return &n.OvertakenFinal }},
	{"sticky-settings", func(n *NastyOptions) *float64 { return &n.StickySettings }},
	{"reset-ignored", func(n *NastyOptions) *float64 { return &n.ResetIgnored }},
	{"reset-foreign", func(n *NastyOptions) *float64 { return &n.ResetForeign }},
	{"greeting-delayed", func(n *NastyOptions) *float64 { return &n.GreetingDelayed }},
	{"silent-death", func(n *NastyOptions) *float64 { return &n.SilentDeath }},
	{"close-mid-message", func(n *NastyOptions) *float64 { return &n.CloseMidMessage }},
	{"punctuation-memory", func(n *NastyOptions) *float64 { return &n.PunctuationMemory }},
	{"early-done", func(n *NastyOptions) *float64 { return &n.EarlyDone }},
}

// NastyNames returns the names of the switches.
func NastyNames() []string {
	var names []string
	for _, n := range nastyNames {
		names = append(names, n.name)
	}
	return append(names, "full")
}

// ParseNasty reads a comma-separated list of switches, as NastyHelp describes them.
func ParseNasty(text string) (NastyOptions, error) {
	var n NastyOptions
	if err := parseList("nasty", text, n.parse); err != nil {
		return NastyOptions{}, err
	}
	return n, nil
}

// parse reads one switch.
func (n *NastyOptions) parse(name string, args []string) (err error) {
	if name == "full" {
		if n.Full, err = strconv.Atoi(strings.Join(args, ":")); err != nil || n.Full < 1 {
			return errors.New("use full:n, where n is 1 or more")
		}
		return nil
	}
	for _, known := range nastyNames {
		if known.name != name {
			continue
		}
		if len(args) > 1 {
			return fmt.Errorf("use %s or %[1]s:p", name)
		}
		*known.field(n), err = probability(args)
		return err
	}
	return spelling.Unknown("switch", name, NastyNames())
}

// validate returns an error that says which switch is wrong and what to use instead.
func (n NastyOptions) validate() error {
	for _, known := range nastyNames {
		if p := *known.field(&n); !isProbability(p) {
			return fmt.Errorf("nasty: %s: invalid probability %v: use 0 to 1", known.name, p)
		}
	}
	if n.Full < 0 {
		return fmt.Errorf("nasty: full: %d is out of range: use 1 or more, or 0 for no limit", n.Full)
	}
	return nil
}

// inSession tells whether anything nasty can happen after the upgrade.
func (n NastyOptions) inSession() bool {
	n.Full = 0
	return n != NastyOptions{}
}
