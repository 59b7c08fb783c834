package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// NastyOptions switch on bad habits of real servers that make connections unsafe to reuse. The zero value is a server without them. All
// but Full and Admissions are probabilities from 0 (never) to 1 (always).
type NastyOptions struct {
	// LatePartials sends a partial result after the final one, or after the acknowledgement of the session's end: a few
	// milliseconds later if the server keeps the connection. sherpa-onnx's server in C++ can do so, because it posts results and
	// "Done!" to different threads (read in its source).
	LatePartials float64
	// OvertakenFinal sends the acknowledgement of the end before the final result. sherpa-onnx's server in C++ can do so, for the same
	// reason.
	OvertakenFinal float64
	// StickySettings keeps the settings of a session for the next one, unless that one sets them itself. The simulated FunASR, Vosk
	// (after the first audio) and Watson always do so, as the real ones do; this switch is for DashScope. The other protocols have
	// no settings that another session on the connection could change.
	StickySettings float64
	// ResetIgnored ignores a reset and does not answer it, as servers do that do not know it: those of Vosk and FunASR in C++ (the
	// latter read in its source).
	ResetIgnored float64
	// ResetForeign repeats the acknowledgement of the connection's previous session before the answer to a reset, as a server would
	// that answers from a queue in which that session left something. No server is known to do so. Only a tag distinguishes it from the
	// true acknowledgement, or waiting for more. If the acknowledgement is a result (Vosk), a client that is still connected gets it:
	// then the server itself leaks.
	ResetForeign float64
	// GreetingDelayed sends what a server says before it accepts audio a tenth of a second late, as WhisperLive does, which loads a
	// model first.
	GreetingDelayed float64
	// SilentDeath is the probability, for each message, that the session dies on the server: it answers only pings, and the socket stays
	// open. Kyutai's server does so if its model loop fails, which it only logs (read in its source).
	SilentDeath float64
	// CloseMidMessage is the probability, for each result, that the server closes the connection (1011) after its first
	// fragment. RFC 6455 allows it (section 5.4); a server that sends results in fragments does so if it fails in between.
	CloseMidMessage float64
	// PunctuationMemory lets FunASR's punctuation model keep the last sentence as context for the next one, even across the
	// acknowledged end. The real server does so, unless it was started with --punc_model "".
	PunctuationMemory float64
	// EarlyDone is the probability, for each piece of audio, that a generation of vLLM ends by itself, as it does at the
	// model's token limit: audio and the end mark that arrive later stay in the queue.
	EarlyDone float64
	// Fragile is the probability, for each session in whose middle the client ends the connection, that the session's place is never free
	// again (see Full). Servers whose threads or workers wait for the end of the audio do so.
	Fragile float64
	// Dither is the probability, for each message, that Vosk is less sure of the words in its answer, as models with dither are, whose results
	// are not the same each time.
	Dither float64
	// DroppedEnd drops what WhisperLive has not finally transcribed when the client ends its audio, as the real server does (tried with 0.10.0), which
	// works at its own pace.
	DroppedEnd float64
	// Full is the number of sessions that the server accepts at a time. It refuses others as Protocol.Full says. 0: no limit.
	Full int
	// Admissions is how many sessions the server accepts in a second. It refuses others as if it were full, as WhisperLive does that computes in
	// batches (tried with 0.10.0: 5). 0: no limit.
	Admissions int
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
fragile[:p]             a client that leaves in the middle of a session blocks its place (see full) for good
dither[:p]              Vosk's confidence is not the same each time
dropped-end[:p]         what is not finally transcribed is dropped at the end of the audio (WhisperLive)
admissions:n            the server accepts n sessions a second and refuses others as the protocol does (WhisperLive)
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
	{"dither", func(n *NastyOptions) *float64 { return &n.Dither }},
	{"dropped-end", func(n *NastyOptions) *float64 { return &n.DroppedEnd }},
	{"fragile", func(n *NastyOptions) *float64 { return &n.Fragile }},
}

// NastyNames returns the names of the switches.
func NastyNames() []string {
	var names []string
	for _, n := range nastyNames {
		names = append(names, n.name)
	}
	return append(names, "full", "admissions")
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
	if limit := map[string]*int{"full": &n.Full, "admissions": &n.Admissions}[name]; limit != nil {
		if *limit, err = strconv.Atoi(strings.Join(args, ":")); err != nil || *limit < 1 {
			return fmt.Errorf("use %s:n, where n is 1 or more", name)
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
	for name, limit := range map[string]int{"full": n.Full, "admissions": n.Admissions} {
		if limit < 0 {
			return fmt.Errorf("nasty: %s: %d is out of range: use 1 or more, or 0 for no limit", name, limit)
		}
	}
	return nil
}

// inSession reports whether any bad habit can show after the upgrade.
func (n NastyOptions) inSession() bool {
	n.Full, n.Admissions = 0, 0
	return n != NastyOptions{}
}
