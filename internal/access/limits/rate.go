package limits

import (
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// Rate is a number of things in each period. A token bucket for it holds one period's worth: a rate of 100 a minute allows 100 at once,
// and the next after 0.6 s. The zero value is no limit.
type Rate struct {
	N   int64         // in each period; 0 for no limit
	Per time.Duration // a second, a minute or an hour
}

// The words of errors for a rate that cannot be read.
const (
	// RateAllowed describes the texts of rates of things.
	RateAllowed = "a number for each second, minute or hour, such as 10/s, 100/m or 1000/h; 0 for no limit"
	// ByteRateAllowed describes the texts of rates of bytes.
	ByteRateAllowed = "a size for each second, minute or hour, such as 64KiB/s or 10MiB/m; 0 for no limit"
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
	return parse("rate", text, RateAllowed, func(number string) (int64, error) { return strconv.ParseInt(number, 10, 64) })
}

// ParseByteRate reads a rate of bytes: 64KiB/s, 10MiB/m, or 0 for no limit.
func ParseByteRate(text string) (Rate, error) {
	return parse("rate", text, ByteRateAllowed, value.ParseSize)
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
