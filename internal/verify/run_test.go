package verify

import (
	"context"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/profile"
	"github.com/wsbouncer/wsbouncer/internal/sim"
	"github.com/wsbouncer/wsbouncer/internal/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wav"
)

// sounds returns a recording of sounds that last so long each, with pauses between them that end an utterance.
func sounds(lengths ...time.Duration) *wav.Audio {
	const rate = 16000
	a := &wav.Audio{SampleRate: rate, Channels: 1, BitsPerSample: 16}
	for i, length := range lengths {
		for j := range int(length.Seconds() * rate) {
			v := float64(6000+2000*i) * math.Sin(2*math.Pi*440*float64(j)/rate)
			a.PCM = binary.LittleEndian.AppendUint16(a.PCM, uint16(int16(v)))
		}
		a.PCM = append(a.PCM, make([]byte, rate*2*6/10)...)
	}
	return a
}

// try verifies a profile on a simulated server.
func try(t *testing.T, name string, server sim.Options, change func(*Options)) (*Report, error) {
	t.Helper()
	p, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sim.Start(server)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	target, err := handshake.ParseTarget(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	target.Protocol = p.Subprotocol
	target.AddQuery(p.Script().Query)
	o := Options{Profile: p, Target: target, Connections: 60, Wait: 5 * time.Second, Pace: 50, Seed: 7}
	for _, audio := range []*wav.Audio{sounds(300*time.Millisecond, 500*time.Millisecond), sounds(400 * time.Millisecond)} {
		r, err := speaker.NewRecording(p, audio, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		o.Recordings = append(o.Recordings, r)
	}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return Run(ctx, o)
}

func show(t *testing.T, r *Report) {
	t.Helper()
	for _, c := range r.Claims {
		t.Logf("%-10s %-14s %s: %s\n    %s", c.Name, c.Verdict, c.Says, c.Why, strings.Join(c.Evidence, "\n    "))
	}
}

// What the built-in profiles claim holds on the simulated servers.
func TestHolds(t *testing.T) {
	for _, name := range sim.ProtocolNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == sim.Kyutai {
				t.Skip("the simulated server finds words only in audio with marks")
			}
			r, err := try(t, name, sim.Options{Protocol: name}, nil)
			if err != nil || !r.Holds() || testing.Verbose() {
				t.Logf("%v", err)
				show(t, r)
			}
			if err != nil || !r.Holds() {
				t.Error("something does not hold")
			}
		})
	}
}
