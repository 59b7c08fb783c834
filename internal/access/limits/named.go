package limits

import (
	"math"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// Names are the names of limits, as the configuration has them.
var Names = []string{"session-limit", "session-rate", "byte-rate", "message-rate", "max-message", "max-session", "idle-timeout"}

// Set sets the limit of that name from a text that another system has written, such as a claim of a token. It takes what the
// configuration takes, and whole numbers: of seconds for a time, and a second for a rate. 0 is no limit. The error says what is allowed.
func (l *Limits) Set(name, text string) error {
	_, err := strconv.ParseInt(text, 10, 64)
	whole := err == nil && text != "0"
	switch name {
	case "session-limit":
		return value.NewCount(&l.Sessions, 0, math.MaxInt32).Set(text)
	case "max-message":
		return value.NewSize(&l.MaxMessage, 0, math.MaxInt64).Set(text)
	case "session-rate", "message-rate", "byte-rate":
		if whole {
			text += "/s"
		}
		return l.setRate(name, text)
	case "max-session", "idle-timeout":
		if whole && !strings.HasPrefix(text, "-") {
			text += "s"
		}
		d := &l.MaxSession
		if name == "idle-timeout" {
			d = &l.IdleTimeout
		}
		if text == "0" {
			text = "0s"
		}
		return value.NewDuration(d, 0).Set(text)
	}
	return spelling.Unknown("limit", name, Names)
}

func (l *Limits) setRate(name, text string) (err error) {
	rate, p, parse := Rate{}, &l.SessionRate, ParseRate
	switch name {
	case "message-rate":
		p = &l.MessageRate
	case "byte-rate":
		p, parse = &l.ByteRate, ParseByteRate
	}
	if rate, err = parse(text); err == nil {
		*p = rate
	}
	return err
}
