package limits

import (
	"strings"
	"testing"
	"time"
)

func TestSet(t *testing.T) {
	var l Limits
	for _, c := range [][2]string{
		{"session-limit", "5"},
		{"session-rate", "100/m"},
		{"message-rate", "50"},
		{"byte-rate", "64KiB/s"},
		{"max-message", "1MiB"},
		{"max-session", "3600"},
		{"idle-timeout", "1m"},
	} {
		if err := l.Set(c[0], c[1]); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	want := Limits{
		Sessions: 5, SessionRate: Rate{100, time.Minute}, MessageRate: Rate{50, time.Second}, ByteRate: Rate{64 << 10, time.Second},
		MaxMessage: 1 << 20, MaxSession: time.Hour, IdleTimeout: time.Minute,
	}
	if l != want {
		t.Errorf("%+v, want %+v", l, want)
	}
	for _, name := range Names() {
		if err := l.Set(name, "0"); err != nil {
			t.Errorf("%s: no limit: %v", name, err)
		}
	}
	if l != (Limits{}) {
		t.Errorf("limits are left: %+v", l)
	}
	for _, c := range [][3]string{
		{"session-limit", "-1", "a whole number from 0"},
		{"session-rate", "10/d", "10/s"},
		{"byte-rate", "-5", "64KiB/s"},
		{"max-session", "-5", "a number with a unit"},
		{"max-session", "99999999", "0s to 720h"},
		{"max-message", "1.5MiB", "512KiB"},
		{"sesion-limit", "1", "session-limit"},
	} {
		if err := l.Set(c[0], c[1]); err == nil || !strings.Contains(err.Error(), c[2]) || l != (Limits{}) {
			t.Errorf("%s: %v; %+v", c, err, l)
		}
	}
}

func TestRates(t *testing.T) {
	for text, want := range map[string]Rate{
		"0": {}, "10/s": {10, time.Second}, "100/m": {100, time.Minute}, "1000/h": {1000, time.Hour},
	} {
		got, err := ParseRate(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v, %q, %v", text, got, got, err)
		}
	}
	for text, want := range map[string]Rate{"0": {}, "64KiB/s": {64 << 10, time.Second}, "10MiB/m": {10 << 20, time.Minute}, "100/h": {100, time.Hour}} {
		got, err := ParseByteRate(text)
		if err != nil || got != want || got.Bytes() != text {
			t.Errorf("%s: %+v, %q, %v", text, got, got.Bytes(), err)
		}
	}
	for _, text := range []string{"", "10", "10/", "/s", "10/d", "-1/s", "0/s", "1.5/s", "10 /s", "10/s/s", "64KiB/s"} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
	for _, text := range []string{"", "10KiB", "64kB/s", "-1/s", "9223372036854775807GiB/s"} {
		if got, err := ParseByteRate(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
	if got := (Rate{120, time.Minute}).PerSecond(); got != 2 {
		t.Errorf("120 a minute are %g a second", got)
	}
}
