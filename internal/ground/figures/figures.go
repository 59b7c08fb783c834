// Package figures writes numbers as people read them on a screen: durations, sizes, rates and counts, in few columns.
package figures

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Seconds returns a duration in seconds with two units at most: 840ms, 3.4s, 4m05s, 2h07m, 3d04h. Nothing measured (0) is 0s.
func Seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case s <= 0 || math.IsNaN(s):
		return "0s"
	case s >= math.MaxInt64/float64(time.Second): // a time.Duration ends here
		return "ages"
	case d < time.Millisecond:
		return "<1ms"
	case d < 999500*time.Microsecond:
		return strconv.Itoa(int(d.Round(time.Millisecond)/time.Millisecond)) + "ms"
	case d < 9950*time.Millisecond:
		return strconv.FormatFloat(s, 'f', 1, 64) + "s"
	case d < time.Minute:
		return strconv.Itoa(max(10, int(s))) + "s" // from 9.95
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Since returns how long ago a time is; empty if it is not set.
func Since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Seconds(now.Sub(t).Seconds())
}

// Bytes returns a size with its unit: 812 B, 1.4 KiB, 37 MiB.
func Bytes(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for n >= 999.5 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return scaled(n, i > 0) + " " + units[i]
}

// Count returns a number with at most four digits: 812, 1.4k, 37k, 2.1M.
func Count(n float64) string {
	units := []string{"", "k", "M", "G", "T"}
	i := 0
	for n >= 9999.5 && i == 0 || n >= 999.5 && i > 0 && i < len(units)-1 {
		n /= 1000
		i++
	}
	return scaled(n, i > 0) + units[i]
}

// Rate returns a number per second: with a decimal below 10, since 0.4 sessions a second are not none.
func Rate(n float64) string {
	if n > 0 && n < 0.05 {
		return "<0.1"
	}
	if n >= 9.95 || n == 0 {
		return Count(n)
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

// scaled returns a number: below 10 with a decimal, if that says anything.
func scaled(n float64, decimal bool) string {
	if decimal && n < 9.95 {
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// Plural returns a number and its noun: 1 session, 3 sessions.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
