package value

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// NewCount returns the value for a whole number.
func NewCount(p *int, least, most int) Value { return count{p, least, most} }

type count struct {
	p           *int
	least, most int
}

func (v count) Text() string    { return strconv.Itoa(*v.p) }
func (v count) Allowed() string { return fmt.Sprintf("%d to %d", v.least, v.most) }

func (v count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < v.least || n > v.most {
		return Invalid("number", text, fmt.Sprintf("a whole number from %d to %d", v.least, v.most))
	}
	*v.p = n
	return nil
}

// NewSize returns the value for a number of bytes. [math.MaxInt64] as most means no limit.
func NewSize(p *int64, least, most int64) Value { return size{p, least, most} }

type size struct {
	p           *int64
	least, most int64
}

func (v size) Text() string { return FormatSize(*v.p) }

func (v size) Allowed() string {
	if v.most == math.MaxInt64 {
		return "sizes such as 4096, 512KiB or 16MiB"
	}
	return FormatSize(v.least) + " to " + FormatSize(v.most)
}

func (v size) Set(text string) error {
	n, err := ParseSize(text)
	if err != nil {
		return err
	}
	if n < v.least || n > v.most {
		return Invalid("size", text, "a size from "+FormatSize(v.least)+" to "+FormatSize(v.most))
	}
	*v.p = n
	return nil
}

// NewDuration returns the value for a time span, at most [MaxDuration].
func NewDuration(p *time.Duration, least time.Duration) Value {
	return duration{p, least, MaxDuration, "", 0}
}

// NewDurationWithin returns the value for a time span from least to most.
func NewDurationWithin(p *time.Duration, least, most time.Duration) Value {
	return duration{p, least, most, "", 0}
}

// NewLimit returns the value for a time span, at most [MaxDuration], or none, which is [NoLimit].
func NewLimit(p *time.Duration, least time.Duration) Value {
	return duration{p, least, MaxDuration, none, NoLimit}
}

// NewDurationOr returns the value for a time span from least to most, or a word, which stands for another one.
func NewDurationOr(p *time.Duration, least, most time.Duration, word string, stands time.Duration) Value {
	return duration{p, least, most, word, stands}
}

type duration struct {
	p           *time.Duration
	least, most time.Duration
	word        string // that may be set instead; empty for none
	stands      time.Duration
}

// NoLimit is a time span that does not end. Its text is none.
const NoLimit time.Duration = math.MaxInt64

const none = "none"

// MaxDuration is the longest allowed time span. A longer one is most likely a mistake.
const MaxDuration = 30 * 24 * time.Hour

func (v duration) Text() string {
	if v.word != "" && *v.p == v.stands {
		return v.word
	}
	return FormatDuration(*v.p)
}

func (v duration) Allowed() string {
	return FormatDuration(v.least) + " to " + FormatDuration(v.most) + v.or()
}

// or returns how an enumeration of what is allowed ends.
func (v duration) or() string {
	if v.word != "" {
		return ", or " + v.word
	}
	return ""
}

func (v duration) Set(text string) error {
	if v.word != "" && text == v.word {
		*v.p = v.stands
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return Invalid("duration", text, "a number with a unit, such as 500ms, 10s or 1m30s"+v.or())
	}
	if d < v.least || d > v.most {
		return Invalid("duration", text, "a duration from "+FormatDuration(v.least)+" to "+FormatDuration(v.most)+v.or())
	}
	*v.p = d
	return nil
}

// NewNumber returns the value for a number from 0 to most, which may have a fraction.
func NewNumber(p *float64, most float64) Value { return number{p, 0, most} }

// NewNumberWithin returns the value for a number from least to most, which may have a fraction.
func NewNumberWithin(p *float64, least, most float64) Value { return number{p, least, most} }

type number struct {
	p           *float64
	least, most float64
}

func (v number) Text() string    { return strconv.FormatFloat(*v.p, 'g', -1, 64) }
func (v number) Allowed() string { return fmt.Sprintf("%g to %g", v.least, v.most) }

func (v number) Set(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < v.least || n > v.most {
		return Invalid("number", text, fmt.Sprintf("a number from %g to %g", v.least, v.most))
	}
	*v.p = n
	return nil
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// ParseSize reads a number of bytes: 4096, 512KiB, 16MiB.
func ParseSize(text string) (int64, error) {
	for _, unit := range sizeUnits {
		number, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/unit.bytes {
			break
		}
		return n * unit.bytes, nil
	}
	return 0, Invalid("size", text, "a number of bytes such as 4096, 512KiB or 16MiB")
}

// FormatSize is the reverse of ParseSize.
func FormatSize(n int64) string {
	for _, unit := range sizeUnits {
		if unit.bytes > 1 && n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// FormatDuration returns a duration as people write it: 1m and not 1m0s.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
