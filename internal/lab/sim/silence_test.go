package sim

import (
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

func TestSilence(t *testing.T) {
	for protocol, script := range map[string]string{
		DashScope:      "< close 1000",
		Watson:         "< \"error\": \"Session timed out\n< close 1011",
		Deepgram:       "< close 1011",
		Speechmatics:   "< \"type\": \"idle_timeout\"\n< close 1000",
		Soniox:         "< \"error_code\":408\n< close 1000",
		RealtimeSTT:    "< hello\n< ready\n< \"code\":\"idle_timeout\"\n< close 1000",
		KaldiGStreamer: "< \"status\": 1\n< close 1000",
		Cartesia:       "< close 1000",
		ElevenLabsTTS:  "< close 1000",
	} {
		t.Run(protocol, func(t *testing.T) {
			talk(t, start(t, Options{Protocol: protocol, Silence: 1}), "/", script)
		})
	}
}

// A client that keeps saying something is not silent.
func TestSilenceBroken(t *testing.T) {
	const limit = 300 * ms
	s := start(t, Options{Protocol: Deepgram, Silence: limit})
	c := dial(t, s)
	for begin, last := now(), now(); now()-begin < 2*limit; {
		say(t, c, websocket.MessageBinary, audioOf(t, 7, "1"))
		_, _, err := c.Read(wstest.Context(t))
		switch said := now(); {
		case said-last > limit/2: // this machine was silent
			c, begin = dial(t, s), said
		case err != nil:
			t.Fatalf("after %v of talking: %v", said-begin, err)
		}
		last = now()
	}
	converse(t, c, 7, "< close 1011")
}
