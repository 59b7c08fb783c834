package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/explore"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/proof/simulate"
)

// An exploration that gives up is no proof.
func TestIncompleteFails(t *testing.T) {
	for _, test := range []struct {
		args   string
		status int
		says   string
	}{
		{"-proxies 2 -cap 1 -faults 0 -losses 0", kit.Held, ", complete"},
		{"-proxies 3 -cap 3 -faults 2 -states 1000", kit.Failed, "so nothing is proven"},
		{"-proxies 3 -cap 3 -faults 2 -time 1ns", kit.Failed, "so nothing is proven"},
		{"-only fire", kit.Misused, "no kind of fault"},
		{"-states many", kit.Misused, "invalid value"},
	} {
		var out bytes.Buffer
		status := kit.Run(context.Background(), "explore", strings.Fields(test.args), &out, &out, run)
		if status != test.status || !strings.Contains(out.String(), test.says) {
			t.Errorf("%s: status %d; want %d and %q in\n%s", test.args, status, test.status, test.says, out.String())
		}
	}
}

// A state that is wrong fails.
func TestWrongFails(t *testing.T) {
	if err := judge(&explore.Result{Wrong: "more connections than places", Complete: true}); err == nil {
		t.Error("nothing was found")
	}
}

// A simulated fleet fails if it had too many connections, and if places moved too late or not at all.
func TestJudgeFleet(t *testing.T) {
	moved := []time.Duration{time.Millisecond, longestMove}
	for want, r := range map[string]simulate.Result{
		"":                        {Sessions: 9, Waited: moved},
		"more connections than":   {Sessions: 9, Waited: moved, Above: 1},
		"no client of 9 sessions": {Sessions: 9},
		"waited 2.000000001s":     {Sessions: 9, Waited: []time.Duration{time.Millisecond, longestMove + 1}},
	} {
		if err := judgeFleet(&r); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q; got %v", want, err)
		}
	}
}
