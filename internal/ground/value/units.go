package value

import (
	"math"
	"strconv"
	"strings"
	"time"
)

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
