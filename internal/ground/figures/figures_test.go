package figures

import (
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ got, want string }{
		{Seconds(0), "0s"},
		{Seconds(-3), "0s"},
		{Seconds(0.0004), "<1ms"},
		{Seconds(0.0344), "34ms"},
		{Seconds(0.9996), "1.0s"},
		{Seconds(3.44), "3.4s"},
		{Seconds(9.94), "9.9s"},
		{Seconds(9.96), "10s"},
		{Seconds(59.9), "59s"},
		{Seconds(60), "1m00s"},
		{Seconds(245), "4m05s"},
		{Seconds(2*3600 + 7*60), "2h07m"},
		{Seconds(76 * 3600), "3d04h"},
		{Seconds(1e18), "ages"},
		{Since(time.Time{}, now), ""},
		{Since(now.Add(-time.Minute), now), "1m00s"},
		{Since(now.Add(time.Second), now), "0s"},
		{Bytes(0), "0 B"},
		{Bytes(812), "812 B"},
		{Bytes(999.6), "1.0 KiB"},
		{Bytes(1434), "1.4 KiB"},
		{Bytes(37 << 20), "37 MiB"},
		{Bytes(float64(5 << 60)), "5120 PiB"},
		{Count(812), "812"},
		{Count(9999), "9999"},
		{Count(14000), "14k"},
		{Count(2.14e6), "2.1M"},
		{Rate(0), "0"},
		{Rate(0.01), "<0.1"},
		{Rate(0.44), "0.4"},
		{Rate(9.96), "10"},
		{Rate(37000), "37k"},
		{Plural(1, "session"), "1 session"},
		{Plural(0, "session"), "0 sessions"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
