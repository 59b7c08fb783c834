// Package limits says how much clients may use: sessions, and messages and bytes a second. It does no I/O, and has no clock.
//
// A [Scope] is one thing that is limited: the process, a service, a client's address, a key or a tenant. It counts the sessions that are
// in it, and has a token bucket for each rate. A session's [Hold] has its places in all scopes that it is in, which are given back together.
// The [Registry] knows which scopes those are. Package admission asks it when a client arrives, and
// package relay pays for what the client sends.
package limits

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// Limits are what one thing that is limited may use: the process, a service, a tenant, a key, or a client's address. The zero value of
// a field is no limit.
type Limits struct {
	Sessions    int  // at once
	SessionRate Rate // new sessions
	MessageRate Rate // messages from clients
	ByteRate    Rate // bytes from clients

	MaxMessage  int64         // largest message from a client in bytes
	MaxSession  time.Duration // longest session
	IdleTimeout time.Duration // ends a session without a frame for so long

	AudioQuota Quota // of a tenant or key
}

// Value returns the value of one limit, as the configuration reads and writes it.
func (l *Limits) Value(limit Limit) value.Value {
	switch limit {
	case Sessions:
		return value.NewCount(&l.Sessions, 0, math.MaxInt32)
	case SessionRate:
		return RateValue(&l.SessionRate)
	case ByteRate:
		return ByteRateValue(&l.ByteRate)
	case MessageRate:
		return RateValue(&l.MessageRate)
	case MaxMessage:
		return value.NewSize(&l.MaxMessage, 0, math.MaxInt64)
	case MaxSession:
		return value.NewDuration(&l.MaxSession, 0)
	case AudioQuota:
		return quotaValue{&l.AudioQuota}
	}
	return value.NewDuration(&l.IdleTimeout, 0)
}

// Text returns a limit as the configuration writes it.
func (l *Limits) Text(limit Limit) string { return l.Value(limit).Text() }

// Rate is a number of things in each period. A token bucket for it holds one period's worth: a rate of 100 a minute allows 100 at once,
// and the next after 0.6 s. The zero value is no limit.
type Rate struct {
	N   int64         // in each period; 0 for no limit
	Per time.Duration // a second, a minute or an hour
}

// The words of errors for a rate that cannot be read.
const (
	rateAllowed     = "a number for each second, minute or hour, such as 10/s, 100/m or 1000/h; 0 for no limit"
	byteRateAllowed = "a size for each second, minute or hour, such as 64KiB/s or 10MiB/m; 0 for no limit"
)

var periods = []struct {
	text string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

// Unlimited reports whether the rate is no limit.
func (r Rate) Unlimited() bool { return r.N <= 0 || r.Per <= 0 }

// PerSecond returns the rate in things a second.
func (r Rate) PerSecond() float64 {
	if r.Unlimited() {
		return 0
	}
	return float64(r.N) / r.Per.Seconds()
}

// ParseRate reads a rate of things: 10/s, 100/m, 1000/h, or 0 for no limit.
func ParseRate(text string) (Rate, error) {
	return parse("rate", text, rateAllowed, func(number string) (int64, error) { return strconv.ParseInt(number, 10, 64) })
}

// ParseByteRate reads a rate of bytes: 64KiB/s, 10MiB/m, or 0 for no limit.
func ParseByteRate(text string) (Rate, error) {
	return parse("rate", text, byteRateAllowed, value.ParseSize)
}

func parse(what, text, allowed string, number func(text string) (int64, error)) (Rate, error) {
	if text == "0" {
		return Rate{}, nil
	}
	count, unit, ok := strings.Cut(text, "/")
	n, err := number(count)
	if !ok || err != nil || n <= 0 {
		return Rate{}, value.Invalid(what, text, allowed)
	}
	for _, p := range periods {
		if unit == p.text {
			return Rate{N: n, Per: p.per}, nil
		}
	}
	return Rate{}, value.Invalid(what, text, allowed)
}

// String is the reverse of [ParseRate].
func (r Rate) String() string {
	return r.format(func(n int64) string { return strconv.FormatInt(n, 10) })
}

// Bytes is the reverse of [ParseByteRate].
func (r Rate) Bytes() string { return r.format(value.FormatSize) }

func (r Rate) format(number func(int64) string) string {
	for _, p := range periods {
		if !r.Unlimited() && r.Per == p.per {
			return number(r.N) + "/" + p.text
		}
	}
	return "0"
}

// RateValue returns the value for a rate of things.
func RateValue(p *Rate) value.Value { return rateValue{p, rateAllowed, ParseRate, Rate.String} }

// ByteRateValue returns the value for a rate of bytes.
func ByteRateValue(p *Rate) value.Value {
	return rateValue{p, byteRateAllowed, ParseByteRate, Rate.Bytes}
}

type rateValue struct {
	p       *Rate
	allowed string
	parse   func(string) (Rate, error)
	format  func(Rate) string
}

func (v rateValue) Text() string    { return v.format(*v.p) }
func (v rateValue) Allowed() string { return v.allowed }

func (v rateValue) Set(text string) error {
	rate, err := v.parse(text)
	if err == nil {
		*v.p = rate
	}
	return err
}

// Names returns the names of the limits that a credential may bring along, as the configuration has them. What is used by a key or tenant is counted for
// all proxies, under its name in the configuration, so that only the configuration has quotas.
func Names() []string {
	names := make([]string, 0, Count)
	for limit := range AudioQuota {
		names = append(names, limit.String())
	}
	return names
}

// Set sets the limit of that name from a text that another system has written, such as a claim of a token. It takes what the
// configuration takes, and whole numbers: of seconds for a time, and a second for a rate. 0 is no limit. The error says what is allowed.
func (l *Limits) Set(name, text string) error {
	limit := slices.Index(Names(), name)
	if limit < 0 {
		return spelling.Unknown("limit", name, Names())
	}
	_, err := strconv.ParseInt(text, 10, 64)
	switch isWhole := err == nil; Limit(limit) {
	case SessionRate, MessageRate, ByteRate:
		if isWhole && text != "0" {
			text += "/s"
		}
	case MaxSession, IdleTimeout:
		if isWhole && !strings.HasPrefix(text, "-") {
			text += "s"
		}
	}
	return l.Value(Limit(limit)).Set(text)
}

// A client may send maxControls pings and pongs within controlPeriod. Each is answered, or at least read, and none counts as a message. Clients
// that are usual send one in some seconds.
const (
	maxControls   = 1000
	controlPeriod = 10 * time.Second
)

// Controls counts the control frames of a client. Its owner is the client's.
type Controls struct {
	count uint32 // since the period began
	begun uint32 // when the period began, in milliseconds; 0 before the first control frame
}

// Exceeded counts a control frame, and reports whether there were too many. It reads the clock only once in maxControls times.
func (c *Controls) Exceeded(clock func() Instant) bool {
	if c.count++; c.count > 1 && c.count <= maxControls {
		return false
	}
	now, begun := uint32(clock()/Instant(time.Millisecond))|1, c.begun
	c.count, c.begun = 1, now
	return begun != 0 && now-begun < uint32(controlPeriod.Milliseconds()) // also after an overflow
}
