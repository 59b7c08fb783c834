//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// The load: people who talk all the time. The server hears silence, so that all its answers are alike: an empty text.
const (
	streams   = 500  // clients
	frameSize = 3200 // bytes in a message: 100 ms at 16 kHz
	frameRate = 20   // messages per second and client
)

// recording returns a WAV file of silence that lasts so long when frameRate messages are sent a second.
func recording(d time.Duration) []byte {
	const bytesPerSample = 2
	rate := frameRate * frameSize / bytesPerSample
	size := int(d*frameRate/time.Second) * frameSize
	file := append(make([]byte, 0, 44+size), "RIFF"...)
	file = binary.LittleEndian.AppendUint32(file, uint32(36+size))
	file = append(file, "WAVEfmt "...)
	file = binary.LittleEndian.AppendUint32(file, 16)
	file = binary.LittleEndian.AppendUint16(file, 1) // PCM
	file = binary.LittleEndian.AppendUint16(file, 1) // mono
	file = binary.LittleEndian.AppendUint32(file, uint32(rate))
	file = binary.LittleEndian.AppendUint32(file, uint32(rate*bytesPerSample))
	file = binary.LittleEndian.AppendUint16(file, bytesPerSample)
	file = binary.LittleEndian.AppendUint16(file, 8*bytesPerSample)
	file = append(file, "data"...)
	file = binary.LittleEndian.AppendUint32(file, uint32(size))
	return append(file, make([]byte, size)...)
}

// loadResult is what the load generator says when it is done.
type loadResult struct {
	Connections     int            `json:"connections"`
	ConnectFailures int            `json:"connect_failures"`
	Sent            int            `json:"sent"`
	Received        int            `json:"received"`
	Lost            int            `json:"lost"`
	Mixed           int            `json:"mixed"`
	Failed          int            `json:"failed"`
	Errors          map[string]int `json:"errors"`
}

// trouble tells what makes a measurement under the load meaningless.
func (r loadResult) trouble() error {
	if r.ConnectFailures+r.Failed+r.Mixed == 0 && r.Lost*1000 <= r.Sent && r.Received > 0 {
		return nil
	}
	return fmt.Errorf("%d of %d clients did not connect, %d failed, %d of %d messages lost, %d mixed up, errors %v",
		r.ConnectFailures, r.Connections, r.Failed, r.Lost, r.Sent, r.Mixed, r.Errors)
}

// offer streams audio to an address for so long, with wsbouncer's load generator. steady is called once all clients are
// connected and stream.
func (p *programs) offer(ctx context.Context, address string, d time.Duration, steady func()) error {
	ctx, cancel := context.WithTimeout(ctx, d+2*patience)
	defer cancel()
	file := filepath.Join(p.dir, "silence.wav")
	if err := os.WriteFile(file, recording(d), 0o644); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, p.wsbouncer, "bench", "ws://"+address+"/", "--connections", strconv.Itoa(streams),
		"--audio", file, "--config", "", "--chunk", (time.Second / frameRate).String(), "--duration", d.String(), "--json", "--quiet")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	var printed bytes.Buffer
	command.Stdout = &printed
	messages, err := command.StderrPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	var said child.Tail
	for lines := bufio.NewScanner(messages); lines.Scan(); {
		switch line := lines.Text(); strings.TrimSpace(line) {
		case "steady":
			steady()
		default:
			fmt.Fprintln(&said, line)
		}
	}
	exit := command.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("load: %w", context.Cause(ctx))
	}
	var result loadResult
	if err := json.Unmarshal(printed.Bytes(), &result); err != nil {
		return fmt.Errorf("load (%v) gave no result: %s", exit, &said)
	}
	return result.trouble()
}
