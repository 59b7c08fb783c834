package cli

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/wsbouncer/wsbouncer/internal/config/value"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "17B": 17, "512KiB": 512 << 10, "16MiB": 16 << 20, "3GiB": 3 << 30, "8589934591GiB": 8589934591 << 30,
	} {
		var v sizeValue
		if err := v.Set(text); err != nil || int64(v) != want {
			t.Errorf("%q is %d, %v; want %d", text, v, err, want)
		}
	}
	for _, text := range []string{"", "B", "MiB", "-1", "-1KiB", "1.5MiB", "16MB", "16 MiB", "16mib", "0x10", "8589934592GiB", "9223372036854775808"} {
		v := sizeValue(7)
		err := v.Set(text)
		if err == nil || !strings.Contains(err.Error(), "use a number of bytes") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// TestSizesThereAndBack has each size that is shown mean the same when it is given.
func TestSizesThereAndBack(t *testing.T) {
	for _, n := range []int64{0, 1, 1023, 1024, 1025, 1 << 20, 3 << 20, 1<<20 + 1, 1 << 30, 1<<63 - 1} {
		if got, err := value.ParseSize(value.FormatSize(n)); err != nil || got != n {
			t.Errorf("%d is shown as %q, which is %d, %v", n, value.FormatSize(n), got, err)
		}
	}
	for n, want := range map[int64]string{16 << 20: "16MiB", 1000: "1000", 1536: "1536", 2 << 10: "2KiB"} {
		v := sizeValue(n)
		if v.String() != want {
			t.Errorf("%d is shown as %q, want %q", n, v.String(), want)
		}
	}
}

func TestWarm(t *testing.T) {
	n := -1
	v := warmValue{&n}
	if v.String() != "" {
		t.Errorf("the default is shown as %q", v.String())
	}
	if err := v.Set("12"); err != nil || n != 12 || v.String() != "12" {
		t.Errorf("%d, %q, %v", n, v.String(), err)
	}
	if err := v.Set("0"); err != nil || n != 0 { // on demand
		t.Errorf("%d, %v", n, err)
	}
	for _, text := range []string{"-1", "", "many", "1.0"} {
		if err := v.Set(text); err == nil || n != 0 || !strings.Contains(err.Error(), "allowed are whole numbers from 0 to the cap") {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
}

// TestEveryFlagTypeIsExplained makes sure that a bad value of any flag is answered with what is allowed.
func TestEveryFlagTypeIsExplained(t *testing.T) {
	for _, cmd := range newRootCommand().Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			switch kind := f.Value.Type(); kind {
			case "string", "stringArray", "stringSlice", "size", "threshold": // take anything, or explain themselves
			default:
				if allowedValues[kind] == "" {
					t.Errorf("%s --%s: nothing is said about type %s", cmd.Name(), f.Name, kind)
				}
			}
		})
	}
}
