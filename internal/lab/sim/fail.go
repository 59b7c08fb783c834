package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// FailOptions say how a server fails. Probabilities are from 0 (never) to 1 (always); those of messages are drawn for every answer.
type FailOptions struct {
	// Refuse is the probability that an upgrade is answered with HTTP 503.
	Refuse float64
	// Reset is the probability that the connection is reset (TCP's RST) instead of answering a message.
	Reset float64
	// Close is the probability that the connection is closed with CloseCode instead of answering a message.
	Close float64
	// CloseCode is the code for Close.
	CloseCode frame.CloseCode
	// Poison makes the server close the connection with 1011 when a message has the word poison in it, as servers do whose code stumbles over
	// what a client says.
	Poison bool
	// Stall is the probability that the server hangs instead of answering a message: from then on it answers nothing on that
	// connection, not even pings or a close, while the socket stays open.
	Stall float64
	// MidFrame is the probability that the server dies in the middle of the frame that answers a message: the stream
	// ends there, without a close frame.
	MidFrame float64
	// OOM is the probability that the whole server dies instead of answering a message, as when it runs out of memory: all its connections
	// end in the middle of a frame, and it accepts none for OOMFor. Then it is as after its start.
	OOM float64
	// OOMFor is how long a server stays dead. Default 2 s.
	OOMFor time.Duration
	// Slow is how many seconds the server needs for a second of audio; above 1, it falls behind. 0 for no time.
	Slow float64
	// Cores is on how many cores a slow server decodes: a piece of audio waits until one is free. Default 0: each connection has its own.
	Cores int
	// Streams is how many streams the server decodes at full speed, on one core that all share: beyond that, results are later and later, by (n-k)/k
	// seconds per second. It replaces Slow and Cores. Default 0: no such limit.
	Streams int
	// Law is how a server with Streams differs from that: one of Laws, empty for not at all.
	Law string
	// Age is how long a connection lives: then the server ends it as the real one does, or with 1001. 0 for no limit.
	Age time.Duration
	// Notice is how long before that the server says so, as Gemini does. 0 for not at all.
	Notice time.Duration
	// Greeting makes the server send a message at connect.
	Greeting bool
	// Late is the probability that an unsolicited message follows LateAfter after an answer. At most one is scheduled at a time.
	Late float64
	// LateAfter is the delay of late messages. Default 30 ms.
	LateAfter time.Duration
	// Chatter is the time between unsolicited messages; 0 for none.
	Chatter time.Duration
}

const (
	defaultLateAfter = 30 * time.Millisecond
	defaultChatter   = time.Second
	defaultOOM       = 2 * time.Second
	slowest          = 1000
	mostCores        = 1024
	mostStreams      = 10000
)

// FailHelp describes the words that ParseFail takes, one per line.
const FailHelp = `refuse[:p]           answer upgrades with HTTP 503
reset:p              reset the connection instead of answering a message
close:code:p         close with the code instead of answering a message
poison               close with 1011 at a message that has the word poison in it
stall:p              stop answering at a message, keep the socket open
midframe:p           end the stream in the middle of an answer's frame
oom[:p[:delay]]      at a message, the whole server dies in the middle of a frame; it is back after a delay (2s)
slow:factor[:cores]  decode a second of audio in factor seconds, above 1: falls behind; all connections share the cores, if given
streams:k[:law]      decode k streams at full speed: of n, results are (n-k)/k seconds later each second; with the law slow-start half as fast
                     for the first 5 s of its life, with thermal a tenth slower after a minute of work, with noisy 20 % faster or slower each time
age:limit[:notice]   end a connection at this age as the service does, or with 1001; say goAway a while before, as Gemini does, if given
greeting             send a message at connect
late[:p[:delay]]     send an extra message a delay (30ms) after an answer
chatter[:interval]   send a message every interval (1s)
p is a probability from 0 to 1, drawn for each upgrade or message`

// failWords are the words of ParseFail.
var failWords = []struct {
	name, form  string
	least, most int // arguments
	field       func(*FailOptions) *float64
}{
	{"refuse", "refuse or refuse:p", 0, 1, func(f *FailOptions) *float64 { return &f.Refuse }},
	{"reset", "reset:p", 1, 1, func(f *FailOptions) *float64 { return &f.Reset }},
	{"close", "close:code:p", 2, 2, func(f *FailOptions) *float64 { return &f.Close }},
	{"poison", "poison", 0, 0, nil},
	{"stall", "stall:p", 1, 1, func(f *FailOptions) *float64 { return &f.Stall }},
	{"midframe", "midframe:p", 1, 1, func(f *FailOptions) *float64 { return &f.MidFrame }},
	{"oom", "oom, oom:p or oom:p:delay", 0, 2, func(f *FailOptions) *float64 { return &f.OOM }},
	{"slow", "slow:factor or slow:factor:cores", 1, 2, nil},
	{"streams", "streams:k or streams:k:law", 1, 2, nil},
	{"age", "age:limit or age:limit:notice", 1, 2, nil},
	{"greeting", "greeting", 0, 0, nil},
	{"late", "late, late:p or late:p:delay", 0, 2, func(f *FailOptions) *float64 { return &f.Late }},
	{"chatter", "chatter or chatter:interval", 0, 1, nil},
}

// ParseFail reads a comma-separated list of failures, as FailHelp describes them.
func ParseFail(text string) (FailOptions, error) {
	var f FailOptions
	if err := parseList("fail", text, f.parse); err != nil {
		return FailOptions{}, err
	}
	if err := f.validate(); err != nil {
		return FailOptions{}, err
	}
	return f, nil
}

// parseList calls parse for each word of a comma-separated list, with its name and what follows each colon.
func parseList(list, text string, parse func(name string, args []string) error) error {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		parts := strings.Split(word, ":")
		if err := parse(parts[0], parts[1:]); err != nil {
			return fmt.Errorf("%s: %q: %w", list, word, err)
		}
	}
	return nil
}

// parse reads one failure.
func (f *FailOptions) parse(name string, args []string) (err error) {
	var names []string
	for _, w := range failWords {
		names = append(names, w.name)
		if w.name != name {
			continue
		}
		if len(args) < w.least || len(args) > w.most {
			return fmt.Errorf("use %s", w.form)
		}
		switch {
		case name == "greeting":
			f.Greeting = true
		case name == "poison":
			f.Poison = true
		case name == "age":
			if f.Age, err = delay(args[0]); err == nil && len(args) == 2 {
				f.Notice, err = delay(args[1])
			}
			return err
		case name == "chatter":
			f.Chatter = defaultChatter
			if len(args) == 1 {
				f.Chatter, err = delay(args[0])
			}
		case name == "close":
			var code uint64
			if code, err = strconv.ParseUint(args[0], 10, 16); err != nil {
				return fmt.Errorf("invalid close code %q: use one that RFC 6455 lets a server send, such as 1011", args[0])
			}
			f.CloseCode, args = frame.CloseCode(code), args[1:]
		case name == "slow":
			if f.Slow, err = strconv.ParseFloat(args[0], 64); err != nil || !isFactor(f.Slow) || f.Slow == 0 {
				return fmt.Errorf("invalid factor %q: use more than 0 and at most %d, such as 1.5", args[0], slowest)
			}
			if len(args) == 2 {
				if f.Cores, err = strconv.Atoi(args[1]); err != nil || f.Cores < 1 || f.Cores > mostCores {
					return fmt.Errorf("invalid number of cores %q: use 1 to %d", args[1], mostCores)
				}
			}
		case name == "streams":
			if f.Streams, err = strconv.Atoi(args[0]); err != nil || f.Streams < 1 || f.Streams > mostStreams {
				return fmt.Errorf("invalid number of streams %q: use 1 to %d", args[0], mostStreams)
			}
			if len(args) == 2 {
				if f.Law = args[1]; !slices.Contains(Laws, f.Law) {
					return spelling.Unknown("law", f.Law, Laws)
				}
			}
		case len(args) == 2:
			after := &f.LateAfter
			if name == "oom" {
				after = &f.OOMFor
			}
			if *after, err = delay(args[1]); err != nil {
				return err
			}
		}
		if w.field != nil {
			*w.field(f), err = probability(args)
		}
		return err
	}
	return spelling.Unknown("failure", name, names)
}

// probability reads a probability from the first argument. Without arguments it is 1.
func probability(args []string) (float64, error) {
	if len(args) == 0 {
		return 1, nil
	}
	p, err := strconv.ParseFloat(args[0], 64)
	if err != nil || !isProbability(p) {
		return 0, fmt.Errorf("invalid probability %q: use 0 to 1", args[0])
	}
	return p, nil
}

func isProbability(p float64) bool { return p >= 0 && p <= 1 }

func isFactor(f float64) bool { return f >= 0 && f <= slowest }

func delay(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxDelay {
		return 0, fmt.Errorf("invalid delay %q: use more than 0s and at most %v, such as 50ms", text, maxDelay)
	}
	return d, nil
}

// validate returns an error that says which failure is wrong and what to use instead.
func (f FailOptions) validate() error {
	for _, w := range failWords {
		if w.field != nil && !isProbability(*w.field(&f)) {
			return fmt.Errorf("fail: %s: invalid probability %v: use 0 to 1", w.name, *w.field(&f))
		}
	}
	if f.Close > 0 && !f.CloseCode.Sendable() {
		return fmt.Errorf("fail: close: %d may not be sent: use 1000 to 1003, 1007 to 1014 or 3000 to 4999", f.CloseCode)
	}
	if f.LateAfter < 0 || f.LateAfter > maxDelay {
		return fmt.Errorf("fail: late: %v is out of range: use 0s (for the default) to %v", f.LateAfter, maxDelay)
	}
	if f.OOMFor < 0 || f.OOMFor > maxDelay {
		return fmt.Errorf("fail: oom: %v is out of range: use 0s (for the default) to %v", f.OOMFor, maxDelay)
	}
	if !isFactor(f.Slow) {
		return fmt.Errorf("fail: slow: %v is out of range: use 0 (no time) to %d", f.Slow, slowest)
	}
	if f.Cores < 0 || f.Cores > mostCores {
		return fmt.Errorf("fail: slow: %d cores are out of range: use 1 to %d, or 0 for one for each connection", f.Cores, mostCores)
	}
	if f.Streams < 0 || f.Streams > mostStreams {
		return fmt.Errorf("fail: streams: %d is out of range: use 1 to %d, or 0 for no limit", f.Streams, mostStreams)
	}
	if f.Law != "" && !slices.Contains(Laws, f.Law) {
		return fmt.Errorf("fail: streams: %w", spelling.Unknown("law", f.Law, Laws))
	}
	if f.Age < 0 || f.Age > maxDelay || f.Notice < 0 || f.Notice > f.Age {
		return fmt.Errorf("fail: age: %v with a notice of %v is out of range: use 0s (no limit) to %v, and a shorter notice", f.Age, f.Notice, maxDelay)
	}
	if f.Chatter < 0 || f.Chatter > maxDelay {
		return fmt.Errorf("fail: chatter: %v is out of range: use 0s (none) to %v", f.Chatter, maxDelay)
	}
	return nil
}

// inSession reports whether anything can go wrong after the upgrade.
func (f FailOptions) inSession() bool {
	f.Refuse = 0
	return f != FailOptions{CloseCode: f.CloseCode, LateAfter: f.LateAfter, OOMFor: f.OOMFor, Cores: f.Cores}
}
