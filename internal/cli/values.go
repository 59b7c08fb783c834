package cli

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// sizeValue is a flag for a size in bytes: 4096, 512KiB, 16MiB, 1GiB.
type sizeValue int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

func parseSize(text string) (int64, error) {
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
	return 0, fmt.Errorf("%q is not a size; allowed are whole numbers of bytes, or with KiB, MiB or GiB behind them", text)
}

func formatSize(n int64) string {
	for _, unit := range sizeUnits {
		if unit.bytes > 1 && n >= unit.bytes && n%unit.bytes == 0 {
			return fmt.Sprintf("%d%s", n/unit.bytes, unit.suffix)
		}
	}
	return strconv.FormatInt(n, 10)
}

// Set implements pflag.Value.
func (v *sizeValue) Set(text string) error {
	n, err := parseSize(text)
	*v = sizeValue(n)
	return err
}

func (v *sizeValue) String() string { return formatSize(int64(*v)) }

// Type implements pflag.Value.
func (v *sizeValue) Type() string { return "size" }

// intSize is sizeValue for an int.
type intSize struct{ target *int }

// Set implements pflag.Value.
func (v intSize) Set(text string) error {
	n, err := parseSize(text)
	if err == nil && n > math.MaxInt32 {
		err = fmt.Errorf("%s is too large", text)
	}
	if err != nil {
		return err
	}
	*v.target = int(n)
	return nil
}

func (v intSize) String() string { return formatSize(int64(*v.target)) }

// Type implements pflag.Value.
func (v intSize) Type() string { return "size" }

// warmValue is the flag for the number of warm connections, whose default is the cap.
type warmValue struct{ target *int }

// Set implements pflag.Value.
func (v warmValue) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a number of connections", text)
	}
	*v.target = n
	return nil
}

func (v warmValue) String() string {
	if v.target == nil || *v.target < 0 {
		return ""
	}
	return strconv.Itoa(*v.target)
}

// Type implements pflag.Value.
func (v warmValue) Type() string { return "int" }

// logFlags choose what is logged to standard error, and how.
type logFlags struct{ level, format string }

func (l *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.level, "log-level", "info", "debug, info (a line for each session), warn or error")
	cmd.Flags().StringVar(&l.format, "log-format", "text", "text or json")
}

func (l *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	var options slog.HandlerOptions
	switch l.level {
	case "debug":
		options.Level = slog.LevelDebug
	case "info":
		options.Level = slog.LevelInfo
	case "warn":
		options.Level = slog.LevelWarn
	case "error":
		options.Level = slog.LevelError
	default:
		return nil, fmt.Errorf("--log-level: %q is not debug, info, warn or error", l.level)
	}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, &options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &options)), nil
	}
	return nil, fmt.Errorf("--log-format: %q is not text or json", l.format)
}
