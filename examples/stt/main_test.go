package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/wsbouncer/wsbouncer/internal/cli" // its changes are changes of the binary
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// proxyBinary is the path of the wsbouncer that the tests run.
var proxyBinary string

// testTimeout ends a test that hangs. A test that passes never waits for it.
const testTimeout = 5 * time.Minute

// TestMain builds the proxy. No test may leave anything behind.
func TestMain(m *testing.M) {
	os.Exit(wstest.BuildAndRun(m, false, func(path string) { proxyBinary = path }))
}

// The profile follows from -translate, and no other one goes with it.
func TestParse(t *testing.T) {
	for _, c := range []struct{ arguments, profile, says string }{
		{"", recognition, ""},
		{"-profile one-shot", "one-shot", ""},
		{"-translate", translations, ""},
		{"-translate -profile " + translations, translations, ""},
		{"-translate -profile vosk", "vosk", "stt: -translate: the simulated servers speak the protocol of openai-translations: leave out -profile\n"},
		{"-h", "", "to real recognisers,\nor with -translate to simulated servers"},
	} {
		var out bytes.Buffer
		o, err := parse(strings.Fields(c.arguments), &out)
		if (err != nil) != (c.says != "") || o.profile != c.profile || !strings.Contains(out.String(), c.says) {
			t.Errorf("%q: profile %q, %v:\n%s", c.arguments, o.profile, err, out.String())
		}
	}
}
