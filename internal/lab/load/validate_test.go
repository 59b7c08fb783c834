package load

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestValidateNamesFieldValueAndWhatIsAllowed(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   []string // parts of the error; empty for no error
	}{
		{func(*Options) {}, nil},
		{func(o *Options) { o.Rate = 0 }, nil},
		{func(o *Options) { o.URLs = nil }, []string{"URL", "missing"}},
		{func(o *Options) { o.URLs = []string{"http://x"} }, []string{"URL", "http", "ws"}},
		{func(o *Options) { o.Connections = 0 }, []string{"connections", "0", "1 to"}},
		{func(o *Options) { o.Rate = -1 }, []string{"rate", "-1", "0"}},
		{func(o *Options) { o.Rate = math.NaN() }, []string{"rate", "NaN"}},
		{func(o *Options) { o.Rate = math.Inf(1) }, []string{"rate", "Inf"}},
		{func(o *Options) { o.Size = 23 }, []string{"size", "23", "24 to"}},
		{func(o *Options) { o.Size = 17 << 20 }, []string{"size", "16777216"}},
		{func(o *Options) { o.Text, o.Unicode = false, true }, []string{"unicode", "text"}},
		{func(o *Options) { o.Duration = 0 }, []string{"duration", "0s", "more than"}},
		{func(o *Options) { o.Drain = -time.Second }, []string{"drain", "-1s"}},
		{func(o *Options) { o.Ramp = -1 }, []string{"ramp", "-1ns"}},
		{func(o *Options) { o.Loops = -1 }, []string{"loops", "-1", "1 to"}},
		{func(o *Options) { o.Window = -1 }, []string{"window", "-1"}},
		{func(o *Options) { o.DialParallel = -1 }, []string{"dial-parallel", "-1"}},
		{func(o *Options) { o.Tick = time.Second }, []string{"tick", "1s", "100ms"}},
		{func(o *Options) { o.Size, o.Drain = 1, -1 }, []string{"size", "drain"}},
	} {
		o := quick("ws://127.0.0.1:1/")
		c.change(&o)
		err := o.Validate()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%+v: %v", o, err)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
		if _, runErr := Run(t.Context(), o, nil); err != nil && (runErr == nil || runErr.Error() != err.Error()) {
			t.Errorf("Run says %v, Validate %v", runErr, err)
		}
	}
}
