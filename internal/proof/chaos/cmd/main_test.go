package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args   string
		status int
		out    string
		errors string
	}{
		{"-list", kit.Held, "bad-keys", ""},
		{"-help", kit.Held, "-sessions number", ""},
		{"chaos", kit.Misused, "", `unexpected argument "chaos"`},
		{"-duration soon", kit.Misused, "", "invalid value"},
		{"-wsbouncer /nowhere", kit.Misused, "", `binary: "/nowhere" cannot run`},
		{"-wsbouncer . -sessions -5", kit.Misused, "", "sessions: -5 is out of range"},
		{"-wsbouncer . -only rude", kit.Misused, "", `unknown scenario "rude"`},
		{"-wsbouncer . -duration 1s -sessions 1 -only drains", kit.Failed, "1 scenarios, 1 sessions, 1s, seed ", "starting proxy main"},
	} {
		t.Setenv("TMPDIR", t.TempDir())
		var out, errors bytes.Buffer
		status := kit.Run(context.Background(), "chaos", strings.Fields(test.args), &out, &errors, run)
		if status != test.status || !strings.Contains(out.String(), test.out) || !strings.Contains(errors.String(), test.errors) {
			t.Errorf("%s: got status %d, %q, %q", test.args, status, out.String(), errors.String())
		}
	}
}
