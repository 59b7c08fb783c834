package main

import (
	"bytes"
	"testing"
	"time"
)

// TestInterpret kills simulated servers while they translate.
func TestInterpret(t *testing.T) {
	o := testOptions()
	o.translate, o.profile, o.proxy = true, "openai-translations", proxyBinary
	o.servers, o.clients, o.rounds, o.speed, o.kill = 3, 2, 1, 2, 1500*time.Millisecond
	o.clips = []string{"../../internal/lab/sim/speech/speech.wav"}
	var out bytes.Buffer
	if err := interpret(testContext(t), o, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	expectOutput(t, out.String(), "kill -9 of recogniser ", "words is equal, to the letter")
}
