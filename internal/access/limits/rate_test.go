package limits

import (
	"testing"
	"time"
)

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
