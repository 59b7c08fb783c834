package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// FailOptions say what goes wrong. Probabilities are from 0 (never) to 1 (always). Those of messages are drawn for every
// answer.
type FailOptions struct {
	// Refuse is the probability that an upgrade is answered with HTTP 503.
	Refuse float64
	// Reset is the probability that the connection is reset (TCP's RST) instead of answering a message.
	Reset float64
	// Close is the probability that the connection is closed with CloseCode instead of answering a message.
	Close float64
	// CloseCode is the code for Close.
	CloseCode frame.CloseCode
	// Stall is the probability that the server hangs instead of answering a message: it answers nothing on that
	// connection from then on, neither pings nor a close, while the socket stays open.
	Stall float64
	// MidFrame is the probability that the server dies in the middle of the frame that answers a message: the stream
	// ends there, without a close frame.
	MidFrame float64
	// Greeting has the server send a message at connect.
	Greeting bool
	// Late is the probability that a message nobody asked for follows an answer, LateAfter behind it. At most one is
	// on its way at a time.
	Late float64
	// LateAfter is the delay of late messages. Default 30 ms.
	LateAfter time.Duration
	// Chatter is the time between messages that nobody asked for; 0 for none.
	Chatter time.Duration
}

const (
	defaultLateAfter = 30 * time.Millisecond
	defaultChatter   = time.Second
)

// FailHelp describes the words that ParseFail takes, one per line.
const FailHelp = `refuse[:p]           answer upgrades with HTTP 503
reset:p              reset the connection instead of answering a message
close:code:p         close with the code instead of answering a message
stall:p              stop answering at a message, keep the socket open
midframe:p           end the stream in the middle of an answer's frame
greeting             send a message at connect
late[:p[:delay]]     send an extra message a delay (30ms) after an answer
chatter[:interval]   send a message every interval (1s)
p is a probability from 0 to 1, drawn for each upgrade or message`

// ParseFail reads a comma-separated list of failures, as FailHelp describes them.
func ParseFail(text string) (FailOptions, error) {
	var f FailOptions
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		if err := f.parse(word); err != nil {
			return FailOptions{}, fmt.Errorf("fail: %q: %w", word, err)
		}
	}
	if err := f.validate(); err != nil {
		return FailOptions{}, err
	}
	return f, nil
}

// parse reads one failure.
func (f *FailOptions) parse(word string) (err error) {
	parts := strings.Split(word, ":")
	name, args := parts[0], parts[1:]
	takes := func(least, most int, form string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("allowed is %s", form)
		}
		return nil
	}
	switch name {
	case "refuse":
		if err = takes(0, 1, "refuse or refuse:p"); err == nil {
			f.Refuse, err = probability(args)
		}
	case "reset":
		if err = takes(1, 1, "reset:p"); err == nil {
			f.Reset, err = probability(args)
		}
	case "stall":
		if err = takes(1, 1, "stall:p"); err == nil {
			f.Stall, err = probability(args)
		}
	case "midframe":
		if err = takes(1, 1, "midframe:p"); err == nil {
			f.MidFrame, err = probability(args)
		}
	case "close":
		if err = takes(2, 2, "close:code:p"); err == nil {
			err = f.parseClose(args)
		}
	case "greeting":
		err = takes(0, 0, "greeting")
		f.Greeting = true
	case "late":
		if err = takes(0, 2, "late, late:p or late:p:delay"); err == nil {
			err = f.parseLate(args)
		}
	case "chatter":
		f.Chatter = defaultChatter
		if err = takes(0, 1, "chatter or chatter:interval"); err == nil && len(args) == 1 {
			f.Chatter, err = delay(args[0])
		}
	default:
		err = fmt.Errorf("unknown failure; allowed are refuse, reset, close, stall, midframe, greeting, late and chatter")
	}
	return err
}

func (f *FailOptions) parseClose(args []string) error {
	code, err := strconv.ParseUint(args[0], 10, 16)
	if err != nil {
		return fmt.Errorf("%q is not a close code; allowed are those that RFC 6455 lets a server send, such as 1011", args[0])
	}
	f.CloseCode = frame.CloseCode(code)
	f.Close, err = probability(args[1:])
	return err
}

func (f *FailOptions) parseLate(args []string) (err error) {
	if len(args) == 2 {
		if f.LateAfter, err = delay(args[1]); err != nil {
			return err
		}
	}
	f.Late, err = probability(args[:min(len(args), 1)])
	return err
}

// probability reads a probability; without one it is 1.
func probability(args []string) (float64, error) {
	if len(args) == 0 {
		return 1, nil
	}
	p, err := strconv.ParseFloat(args[0], 64)
	if err != nil || !(p >= 0 && p <= 1) {
		return 0, fmt.Errorf("%q is not a probability; allowed is 0 to 1", args[0])
	}
	return p, nil
}

func delay(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxDelay {
		return 0, fmt.Errorf("%q is not a delay; allowed is above 0s and at most %v, such as 50ms", text, maxDelay)
	}
	return d, nil
}

// validate tells what is wrong with the failures.
func (f FailOptions) validate() error {
	for _, p := range []struct {
		field string
		value float64
	}{
		{"refuse", f.Refuse},
		{"reset", f.Reset},
		{"close", f.Close},
		{"stall", f.Stall},
		{"midframe", f.MidFrame},
		{"late", f.Late},
	} {
		if !(p.value >= 0 && p.value <= 1) {
			return fmt.Errorf("fail: %s: %v is not a probability; allowed is 0 to 1", p.field, p.value)
		}
	}
	if f.Close > 0 && !f.CloseCode.Sendable() {
		return fmt.Errorf("fail: close: %d may not be sent; allowed are 1000 to 1003, 1007 to 1014 and 3000 to 4999", f.CloseCode)
	}
	if f.LateAfter < 0 || f.LateAfter > maxDelay {
		return fmt.Errorf("fail: late: %v is out of range; allowed is 0s (for the default) to %v", f.LateAfter, maxDelay)
	}
	if f.Chatter < 0 || f.Chatter > maxDelay {
		return fmt.Errorf("fail: chatter: %v is out of range; allowed is 0s (none) to %v", f.Chatter, maxDelay)
	}
	return nil
}

// inSession tells whether anything can go wrong after the upgrade.
func (f FailOptions) inSession() bool {
	f.Refuse = 0
	return f != FailOptions{CloseCode: f.CloseCode, LateAfter: f.LateAfter}
}
