package services

import (
	"fmt"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// Servers that lose a place for good when a client vanishes in the middle of a session are spared by the built-in profiles: as many clients
// vanish as the server has places, twice, and then it still has all of them. Without the profile's leave it has lost them.
func TestFragileServers(t *testing.T) {
	t.Parallel()
	const places = 2
	speech := string(sim.AppendMark(nil, sim.Mark{Session: 7, Seq: 1}, 200))
	for _, c := range []struct {
		protocol string
		first    []string // texts before the audio
		path     string
	}{
		{sim.SherpaONNX, nil, ""},
		{sim.Vosk, []string{`{"config" : {"sample_rate" : 16000}}`}, ""},
		{sim.FunASR, []string{`{"mode": "2pass", "chunk_size": [5, 10, 5], "chunk_interval": 10, "wav_name": "x", "is_speaking": true}`}, ""},
		{sim.FunASRRealtime, []string{"START"}, ""},
		{sim.DashScope, []string{`{"header":{"action":"run-task","task_id":"a"},"payload":{"parameters":{}}}`}, ""},
		{sim.Watson, []string{`{"action":"start","content-type":"audio/l16;rate=16000"}`}, ""},
		{sim.WhisperLive, []string{`{"uid":"u","language":"en","task":"transcribe","model":"small","use_vad":true}`}, ""},
		{sim.WhisperLiveKit, nil, ""},
		{sim.RealtimeSTT, []string{`{"type":"start"}`}, ""},
		{sim.Deepgram, nil, "?encoding=linear16&sample_rate=16000"},
		{sim.AssemblyAI, nil, "?sample_rate=16000"},
		{sim.Speechmatics, []string{`{"message": "StartRecognition", "audio_format": {"type": "raw", "encoding": "pcm_s16le", "sample_rate": 16000}}`}, ""},
		{sim.Soniox, []string{`{"model": "m", "audio_format": "pcm_s16le", "sample_rate": 16000, "num_channels": 1}`}, ""},
		{sim.KaldiGStreamer, nil, ""},
	} {
		for _, leave := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, %v", c.protocol, leave), func(t *testing.T) {
				server, err := sim.Start(sim.Options{Protocol: c.protocol, Nasty: sim.NastyOptions{Fragile: 1, Full: places}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(server.Close)
				r := newRig(t)
				yaml := "from: " + c.protocol + "\npredial: never\n"
				if !leave {
					yaml += "leave: none\nreuse: one-shot\n"
				}
				r.apply(func(content *config.Content) {
					content.Profiles["own"] = config.Profile{YAML: yaml}
					putService(content, "stt", func(s *config.Service) { s.Profile = "own" })
					putBackend(content, "one", "stt", server.URL(), places, func(b *config.Backend) { b.Warm = 0 })
				})
				rounds := 2 * places
				if !leave {
					rounds = places
				}
				for range rounds {
					before := server.Stats().Messages
					p := wstest.Dial(t, r.address, wstest.UpgradeRequest("/stt"+c.path))
					p.ExpectUpgrade()
					for _, text := range c.first {
						p.Send(frame.Text, text)
					}
					p.Send(frame.Binary, speech)
					wstest.Eventually(t, "the server hears it", func() bool { return server.Stats().Messages >= before+uint64(len(c.first))+1 })
					p.Reset()
					wstest.Eventually(t, "its place is free", func() bool {
						b := r.backend("one")
						return b.Leased+b.Resetting+b.Retiring == 0
					})
				}
				lost := uint64(0)
				if !leave {
					lost = places
				}
				wstest.Eventually(t, "all have left", func() bool { return server.Stats().Connections == r.backend("one").Idle })
				if got := server.Stats().AbruptEnds; got != lost {
					t.Errorf("%d ends in the middle; want %d", got, lost)
				}
			})
		}
	}
}
