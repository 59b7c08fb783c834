package cli

import (
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
)

// thresholds is a flag for thresholds of a load, which may be repeated.
type thresholds []load.Threshold

// Set implements pflag.Value.
func (t *thresholds) Set(text string) error {
	threshold, err := load.ParseThreshold(text)
	if err == nil {
		*t = append(*t, threshold)
	}
	return err
}

func (t *thresholds) String() string {
	texts := make([]string, len(*t))
	for i, threshold := range *t {
		texts[i] = threshold.String()
	}
	return strings.Join(texts, ", ")
}

// Type implements pflag.Value.
func (t *thresholds) Type() string { return "threshold" }
