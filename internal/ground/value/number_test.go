package value

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", time.Minute: "1m", 10 * time.Minute: "10m", time.Hour: "1h", 10 * time.Hour: "10h",
		90 * time.Second: "1m30s", time.Hour + time.Second: "1h0m1s", 20 * time.Second: "20s", 100 * time.Millisecond: "100ms",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v is %q; it should be %q", d, got, want)
		}
	}
}

// TestTextsAreRead makes sure that what is written of a number is read as that number.
func TestTextsAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(MaxDuration)).Draw(t, "duration"))
		if rapid.Bool().Draw(t, "whole") {
			d = d.Truncate(time.Minute)
		}
		size := rapid.Int64Min(0).Draw(t, "size") &^ (1<<rapid.IntRange(0, 40).Draw(t, "zeros") - 1)
		weight := rapid.Float64Range(0, 1000).Draw(t, "weight")
		var readDuration time.Duration
		var readSize int64
		var readWeight float64
		for _, v := range []struct{ from, to Value }{
			{NewDuration(&d, 0), NewDuration(&readDuration, 0)},
			{NewSize(&size, 0, math.MaxInt64), NewSize(&readSize, 0, math.MaxInt64)},
			{NewNumber(&weight, 1000), NewNumber(&readWeight, 1000)},
		} {
			if err := v.to.Set(v.from.Text()); err != nil {
				t.Fatal(err)
			}
		}
		if readDuration != d || readSize != size || readWeight != weight {
			t.Fatalf("%v, %d, %v became %v, %d, %v", d, size, weight, readDuration, readSize, readWeight)
		}
	})
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "17B": 17, "512KiB": 512 << 10, "16MiB": 16 << 20, "3GiB": 3 << 30, "8589934591GiB": 8589934591 << 30,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "MiB", "-1", "-1KiB", "1.5MiB", "16MB", "16 MiB", "16mib", "0x10", "8589934592GiB", "9223372036854775808"} {
		if got, err := ParseSize(text); err == nil || !strings.Contains(err.Error(), "use a number of bytes") {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
	for n, want := range map[int64]string{16 << 20: "16MiB", 1000: "1000", 1536: "1536", 2 << 10: "2KiB"} {
		if got := FormatSize(n); got != want {
			t.Errorf("%d is shown as %q, want %q", n, got, want)
		}
	}
}
