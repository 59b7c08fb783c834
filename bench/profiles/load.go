//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/lab/streams"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// The load: clients that stream audio all the time. It is silence, so that all answers of the server are the same: an empty text.
const (
	clients   = 500
	frameSize = 3200 // bytes in a message: 100 ms at 16 kHz
	frameRate = 20   // messages per second and client
	ramp      = time.Second
)

// speaking is the profile of the clients.
var speaking = fmt.Sprintf("profiles: {speaking: {from: vosk, client: {rate: %d, chunk: %v}}}", frameRate*frameSize/2, time.Second/frameRate)

// recording returns silence that lasts for the given time if a client sends frameRate messages a second.
func recording(d time.Duration) (*profile.Profile, *speaker.Recording, error) {
	all, err := profile.Parse("load.go", []byte(speaking))
	if err != nil {
		return nil, nil, err
	}
	silence := &wav.Audio{SampleRate: frameRate * frameSize / 2, Channels: 1, BitsPerSample: 16, PCM: make([]byte, int(d*frameRate/time.Second)*frameSize)}
	r, err := speaker.NewRecording(all[0], silence, d, "")
	return all[0], r, err
}

// trouble says what makes a measurement under the load meaningless.
func trouble(r *load.Result) error {
	if r.Complete == clients {
		return nil
	}
	return fmt.Errorf("%d of %d clients did not connect, %d sessions failed, errors %v", r.ConnectFailures, clients, r.Failed, r.Errors)
}

// offer streams audio to an address. It calls measure when all clients stream, and returns when both are over.
func offer(ctx context.Context, address string, d time.Duration, measure func() error) error {
	ctx, cancel := context.WithTimeout(ctx, ramp+d+2*answerTimeout)
	defer cancel()
	p, silence, err := recording(ramp + d)
	if err != nil {
		return err
	}
	target, err := handshake.ParseTarget("ws://" + address + "/")
	if err != nil {
		return err
	}
	measured := make(chan error, 1)
	steady := false
	result, err := streams.Run(ctx, streams.Options{
		Targets: []*handshake.Target{target}, Profile: p, Recordings: []*speaker.Recording{silence}, Streams: clients, Spread: ramp, For: d,
		Progress: func(now load.Progress) {
			if now.Begins && now.Phase == load.Steady {
				steady = true
				go func() { measured <- measure() }()
			}
		},
	})
	if !steady {
		return errors.Join(errors.New("the load never became steady"), err)
	}
	if failed := <-measured; failed != nil {
		return failed
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return trouble(result)
}
