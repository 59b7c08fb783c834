//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"time"

	loads "github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/lab/streams"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// speak has clients stream silence to a speech server with Vosk's protocol, in messages of the load's size and rate. All answers are the same then: an
// empty text.
func speak(ctx context.Context, address, ca string, l load, progress func(loads.Progress)) (*loads.Result, error) {
	const bytesPerSample = 2
	rate := int(l.rate) * l.size / bytesPerSample
	chunk := time.Duration(float64(time.Second) / l.rate)
	all, err := profile.Parse("speech.go", fmt.Appendf(nil, "profiles: {speaking: {from: vosk, client: {rate: %d, chunk: %v}}}", rate, chunk))
	if err != nil {
		return nil, err
	}
	lasts := l.ramp + l.duration
	silence := &wav.Audio{
		SampleRate: rate, Channels: 1, BitsPerSample: 8 * bytesPerSample, PCM: make([]byte, int(math.Round(lasts.Seconds()*l.rate))*l.size),
	}
	recording, err := speaker.NewRecording(all[0], silence, lasts, "")
	if err != nil {
		return nil, err
	}
	target, err := handshake.ParseTarget(address)
	if err != nil {
		return nil, err
	}
	target.Header = l.header
	if ca != "" {
		target.SetTLS(secure.Settings{CA: ca})
	}
	result, err := streams.Run(ctx, streams.Options{
		Targets: []*handshake.Target{target}, Profile: all[0], Recordings: []*speaker.Recording{recording}, Streams: l.sessions, Spread: l.ramp,
		For: l.duration, Progress: progress,
	})
	if err != nil {
		return nil, err
	}
	result.MessagesPerSecond = float64(result.Received) / lasts.Seconds() // each stream lasts that long
	return result, nil
}
