package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// calibrated is the field that only 'wsbouncer calibrate' writes.
const calibrated = "calibrated"

// Calibrated is the result of 'wsbouncer calibrate' on a backend's server. Its text is one line:
//
//	2026-11-27 vosk streams=24 lag-p95=1s error-rate=0 same-text=0.98 soak=5m0s version=Python/3.11 websockets/12.0
type Calibrated struct {
	At      time.Time // the day, in UTC
	Profile string
	Streams int
	Under   []string // NAME=VALUE: the limits that held, the length of the soak, the model that clients named
	Version string   // of the server, as it says itself; empty if it does not say
}

const (
	streamsMark   = "streams="
	mostUnder     = 20
	mostUnderWord = 100
)

// String returns the result as a text on one line.
func (c *Calibrated) String() string {
	line := fmt.Sprintf("%s %s %s%d", c.At.UTC().Format(time.DateOnly), c.Profile, streamsMark, c.Streams)
	for _, word := range c.Under {
		if checkUnder(word) == nil { // the name of a model may have spaces
			line += " " + word
		}
	}
	return line + versionWords(c.Version)
}

// ParseCalibrated is the reverse of [Calibrated.String].
func ParseCalibrated(text string) (*Calibrated, error) {
	invalid := func(format string, args ...any) (*Calibrated, error) {
		return nil, fmt.Errorf("invalid calibration: "+format+": use a line that 'wsbouncer calibrate --save' has written", args...)
	}
	found, version, hasVersion := strings.Cut(text, versionMark)
	words := strings.Split(found, " ")
	if len(words) < 3 || len(words) > 3+mostUnder || len(version) > mostVerifiedVersion || hasVersion && (version == "" || strings.TrimSpace(version) != version) ||
		!utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return invalid("a date, a profile and a number of streams belong in it, on one line")
	}
	at, err := time.Parse(time.DateOnly, words[0])
	if err != nil {
		return invalid("%.40q is no date such as 2026-11-27", words[0])
	}
	if err := CheckName(words[1]); err != nil {
		return nil, err
	}
	number, ok := strings.CutPrefix(words[2], streamsMark)
	streams, err := strconv.Atoi(number)
	if !ok || err != nil || streams < 1 || streams > maxConnections || strconv.Itoa(streams) != number {
		return invalid("%.40q is no number of streams such as streams=24", words[2])
	}
	for _, word := range words[3:] {
		if err := checkUnder(word); err != nil {
			return invalid("%w", err)
		}
	}
	return &Calibrated{At: at, Profile: words[1], Streams: streams, Under: slices.Clip(words[3:]), Version: version}, nil
}

// checkUnder checks a limit.
func checkUnder(word string) error {
	name, value, ok := strings.Cut(word, "=")
	if !ok || CheckName(name) != nil || name == "version" || value == "" || len(word) > mostUnderWord || strings.ContainsFunc(value, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return fmt.Errorf("%.40q is no limit such as lag-p95=1s", word)
	}
	return nil
}

func checkCalibrated(text string) error {
	if text == "" {
		return nil
	}
	_, err := ParseCalibrated(text)
	return err
}

// CalibratedStreams returns how many streams the backend's server was found to take; 0 if that is not known.
func (b *Backend) CalibratedStreams() int {
	if c, err := ParseCalibrated(b.Calibrated); err == nil {
		return c.Streams
	}
	return 0
}

// CalibratedWarnings returns which backends have a calibration that is old, of another profile or of another version of the server, or may get more
// connections than it found. missing are the backends without one whose server could be calibrated. lookup returns a profile by its name, nil if it
// is not known.
func (s *Snapshot) CalibratedWarnings(lookup func(name string) *profile.Profile, now time.Time) (warnings, missing []string) {
	for name, service := range s.Services() {
		for backend, b := range s.Members(name) {
			p := lookup(service.Profile)
			switch {
			case b.Calibrated != "":
				if err := b.calibrated(&service, now); err != nil {
					warnings = append(warnings, fmt.Sprintf("the backend %s: %v", backend, err))
				}
			case p != nil && p.Script() != nil:
				missing = append(missing, backend)
			}
		}
	}
	return warnings, missing
}

// calibrated says what is wrong with the backend's calibration; nil for nothing.
func (b *Backend) calibrated(service *Service, now time.Time) error {
	c, err := ParseCalibrated(b.Calibrated)
	if err != nil {
		return err
	}
	day := c.At.Format(time.DateOnly)
	const again = "run 'wsbouncer calibrate' with --save again"
	v, _ := ParseVerified(service.Verified)
	switch {
	case c.Profile != service.Profile:
		return fmt.Errorf("its server was calibrated on %s with the profile %s, but the service has the profile %s now: %s", day, c.Profile, service.Profile, again)
	case now.Sub(c.At) > verifiedFor:
		return fmt.Errorf("its server was calibrated on %s, more than %d days ago: %s", day, int(verifiedFor/(24*time.Hour)), again)
	case v != nil && v.At.After(c.At) && v.Version != "" && c.Version != "" && v.Version != c.Version:
		return fmt.Errorf("its server was calibrated on %s as %s, but was %s on %s: %s", day, c.Version, v.Version, v.At.Format(time.DateOnly), again)
	case b.Cap() > c.Streams:
		return fmt.Errorf("it may get %d connections, but took %d streams when it was calibrated on %s: lower connections, or %s", b.Cap(), c.Streams, day, again)
	}
	return nil
}
