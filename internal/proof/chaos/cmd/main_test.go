package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args   string
		status int
		out    string
		errors string
	}{
		{"-list", good, "bad-keys", ""},
		{"-help", good, "", "-sessions number"},
		{"chaos", usage, "", `unexpected argument "chaos"`},
		{"-duration soon", usage, "", "invalid value"},
		{"-wsbouncer /nowhere", usage, "", `binary: "/nowhere" cannot run`},
		{"-wsbouncer . -sessions -5", usage, "", "sessions: -5 is out of range"},
		{"-wsbouncer . -only rude", usage, "", `unknown scenario "rude"`},
		{"-wsbouncer . -duration 1s -sessions 1 -only drains", found, "1 scenarios, 1 sessions, 1s, seed ", "starting proxy main"},
	} {
		t.Setenv("TMPDIR", t.TempDir())
		var out, errors bytes.Buffer
		status := run(context.Background(), strings.Fields(test.args), &out, &errors)
		if status != test.status || !strings.Contains(out.String(), test.out) || !strings.Contains(errors.String(), test.errors) {
			t.Errorf("%s: got status %d, %q, %q", test.args, status, out.String(), errors.String())
		}
	}
}
