package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
)

// TestInterpret kills simulated servers while they translate.
func TestInterpret(t *testing.T) {
	o := testOptions()
	o.translate, o.profile, o.proxy = true, translations, proxyBinary
	o.servers, o.clients, o.rounds, o.speed, o.kill = 3, 2, 1, 2, 1500*time.Millisecond
	o.clips = []string{"../../internal/lab/sim/speech/speech.wav"}
	var out bytes.Buffer
	if err := interpret(testContext(t), o, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	expectOutput(t, out.String(), "2 clients stream speech through the proxy", "to 3 servers:", "kill -9 of server ", "words is equal, to the letter")
	if strings.Contains(out.String(), "recogniser") {
		t.Errorf("servers that translate are called recognisers:\n%s", out.String())
	}
}

// A translation of nothing proves nothing.
func TestInterpretSilence(t *testing.T) {
	silent := filepath.Join(t.TempDir(), "silence.wav")
	audio := make([]byte, 44+2*sampleRate)
	copy(audio, speech.WAV[:44]) // the header: 16 bits, mono
	binary.LittleEndian.PutUint32(audio[4:], uint32(len(audio)-8))
	binary.LittleEndian.PutUint32(audio[40:], uint32(len(audio)-44))
	if err := os.WriteFile(silent, audio, 0o600); err != nil {
		t.Fatal(err)
	}
	o := testOptions()
	o.translate, o.profile, o.proxy = true, translations, proxyBinary
	o.servers, o.clients, o.rounds, o.clips = 1, 1, 1, []string{silent}
	var out bytes.Buffer
	err := interpret(testContext(t), o, &out)
	if err == nil || !strings.Contains(err.Error(), "client 1: without the proxy, its speech has no translation") {
		t.Errorf("got %v", err)
	}
	expectOutput(t, out.String(), "1 client streams speech through the proxy", "to 1 server:")
}
