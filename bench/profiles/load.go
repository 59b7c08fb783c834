//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
)

// The load: clients that stream audio all the time. It is silence, so that all answers of the server are the same: an empty text.
const (
	streams   = 500  // clients
	frameSize = 3200 // bytes in a message: 100 ms at 16 kHz
	frameRate = 20   // messages per second and client
)

// recording returns silence that lasts for the given time if a client sends frameRate messages a second.
func recording(d time.Duration) *wav.Audio {
	const bytesPerSample = 2
	return &wav.Audio{
		SampleRate: frameRate * frameSize / bytesPerSample, Channels: 1, BitsPerSample: 8 * bytesPerSample,
		PCM: make([]byte, int(d*frameRate/time.Second)*frameSize),
	}
}

// trouble says what makes a measurement under the load meaningless.
func trouble(r *load.Result) error {
	if r.Failed+r.Mixed == 0 && r.ConnectFailures == 0 && r.Lost*1000 <= r.Sent && r.Received > 0 {
		return nil
	}
	return fmt.Errorf("%d of %d clients did not connect, %d failed, %d of %d messages lost, %d mixed up, errors %v",
		r.ConnectFailures, r.Connections, r.Failed, r.Lost, r.Sent, r.Mixed, r.Errors)
}

// offer streams audio to an address. It calls measure when all clients stream, and returns when both are over.
func offer(ctx context.Context, address string, d time.Duration, measure func() error) error {
	ctx, cancel := context.WithTimeout(ctx, d+2*answerTimeout)
	defer cancel()
	measured := make(chan error, 1)
	steady := false
	result, err := load.Run(ctx, load.Options{
		URLs: []string{"ws://" + address + "/"}, Connections: streams, Audio: recording(d), Chunk: time.Second / frameRate, Duration: d,
	}, func(p load.Progress) {
		if p.Begins && p.Phase == load.Steady {
			steady = true
			go func() { measured <- measure() }()
		}
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
