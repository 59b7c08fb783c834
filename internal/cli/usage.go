package cli

import (
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
)

// audioText returns a duration of audio, with ~ if a part of it is estimated, and the size of what has no known duration; empty for nothing.
func audioText(seconds, estimated float64, unknown uint64) string {
	var parts []string
	if seconds > 0 {
		text := figures.Seconds(seconds)
		if estimated > 0 {
			text = "~" + text
		}
		parts = append(parts, text)
	}
	if unknown > 0 {
		parts = append(parts, figures.Bytes(float64(unknown))+" of unknown duration")
	}
	return strings.Join(parts, ", ")
}
