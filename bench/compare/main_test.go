//go:build linux

package main

import (
	"io"
	"log"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // progress
	goleak.VerifyTestMain(m)
}

// Numbers that fewer or shorter runs have made replace no published ones.
func TestOnlyTheWholePlanIsPublished(t *testing.T) {
	for _, flags := range [][]string{{"-rounds", "1"}, {"-duration", "1s"}, {"-workers", "nginx=1"}, {"-quick"}, {"-sessions", "10"}} {
		if o, err := parse(flags, io.Discard); err != nil || o.folder() == docs {
			t.Errorf("%q write to %s, %v", flags, o.folder(), err)
		}
	}
	if o, err := parse([]string{"-calm", "0.2"}, io.Discard); err != nil || o.folder() != docs {
		t.Errorf("the whole plan writes to %s, %v", o.folder(), err)
	}
}
