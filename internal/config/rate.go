package config

import (
	"math"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// RateValue returns the value for a rate of things, or of bytes, of an entity or of the process.
func RateValue(p *limits.Rate, bytes bool) value.Value { return rateValue{p, bytes} }

// rateValue is the value for a rate of things, or of bytes.
type rateValue struct {
	p     *limits.Rate
	bytes bool
}

// Text implements [value.Value].
func (v rateValue) Text() string {
	if v.bytes {
		return v.p.Bytes()
	}
	return v.p.String()
}

// Allowed implements [value.Value].
func (v rateValue) Allowed() string {
	if v.bytes {
		return limits.ByteRateAllowed
	}
	return limits.RateAllowed
}

// Set implements [value.Value].
func (v rateValue) Set(text string) (err error) {
	rate, parse := limits.Rate{}, limits.ParseRate
	if v.bytes {
		parse = limits.ParseByteRate
	}
	if rate, err = parse(text); err == nil {
		*v.p = rate
	}
	return err
}

// limitFields are the fields for the limits of an entity: of a tenant, or of a key. of says whose they are. Only those who send have a
// message-rate: a key, a token and a client's address. Many small messages cost more than their bytes, so a byte-rate does not stop a
// client that sends them. A sum over many clients needs no count of its own.
func limitFields[E any](of string, in func(*E) *limits.Limits) []field[E] {
	return []field[E]{
		{"session-limit", "0", "maximum number of sessions of the " + of + " at once; 0 for no limit", func(e *E) value.Value {
			return value.NewCount(&in(e).Sessions, 0, math.MaxInt32)
		}},
		{"session-rate", "0", "maximum rate of new sessions of the " + of + "; 0 for no limit", func(e *E) value.Value {
			return rateValue{&in(e).SessionRate, false}
		}},
		{"byte-rate", "0", "maximum rate of bytes that the clients of the " + of + " send; 0 for no limit", func(e *E) value.Value {
			return rateValue{&in(e).ByteRate, true}
		}},
		{"message-rate", "0", "maximum rate of messages that the clients of the " + of + " send; 0 for no limit", func(e *E) value.Value {
			return rateValue{&in(e).MessageRate, false}
		}},
		{"max-message", "0", "maximum size of a message from a client of the " + of + "; 0 for the service's limit", func(e *E) value.Value {
			return value.NewSize(&in(e).MaxMessage, 0, math.MaxInt64)
		}},
		{"max-session", "0s", "maximum duration of a session of the " + of + "; 0 for the service's limit", func(e *E) value.Value {
			return value.NewDuration(&in(e).MaxSession, 0)
		}},
		{"idle-timeout", "0s", "end a session of the " + of + " after this time without a frame; 0 for the service's limit", func(e *E) value.Value {
			return value.NewDuration(&in(e).IdleTimeout, 0)
		}},
	}
}
