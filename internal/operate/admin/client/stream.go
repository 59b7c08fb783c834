package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxLine limits a line of a stream in bytes: an event with 10,000 sessions takes about 5 MiB.
const maxLine = 16 << 20

// errSilent says that a stream ended since nothing came.
var errSilent = errors.New("the stream is silent")

// Stream is an answer without a fixed end. One goroutine may use it.
type Stream struct {
	client *Client
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	lines  *bufio.Scanner
	silent *time.Timer // ends the request when nothing came for silence; nil for never
	after  time.Duration
}

// Stream opens a stream. It waits for the beginning of the answer for at most [Timeout]. If silence is above 0, the stream fails once
// nothing has come for this long: a proxy whose machine has died sends nothing. The caller closes the stream.
func (c *Client) Stream(ctx context.Context, path string, query url.Values, silence time.Duration) (*Stream, error) {
	return c.Open(ctx, Request{Path: path, Query: query}, silence)
}

// Open is Stream for any request, whose Timeout is for the beginning of the answer.
func (c *Client) Open(ctx context.Context, r Request, silence time.Duration) (*Stream, error) {
	timeout := cmp.Or(r.Timeout, Timeout)
	ctx, cancel := context.WithCancelCause(ctx)
	start := time.AfterFunc(timeout, func() { cancel(fmt.Errorf("no answer within %v", timeout)) })
	response, err := c.send(ctx, r, "text/event-stream, application/x-ndjson")
	if err == nil && response.StatusCode != http.StatusOK {
		var answer []byte
		if answer, err = c.read(ctx, response, nil); err == nil {
			err = c.refused(response, answer)
		}
		_ = response.Body.Close()
	}
	start.Stop()
	if err != nil {
		err = c.broken(ctx, err)
		cancel(nil)
		return nil, err
	}
	s := &Stream{client: c, ctx: ctx, cancel: cancel, body: response.Body, lines: bufio.NewScanner(response.Body), after: silence}
	s.lines.Buffer(nil, maxLine)
	if silence > 0 {
		s.silent = time.AfterFunc(silence, func() { cancel(fmt.Errorf("%w for %v", errSilent, silence)) })
	}
	return s, nil
}

// broken returns why a stream ended. The caller's context may have ended, or one of the stream's own timers.
func (c *Client) broken(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return &UnreachableError{c.address, cause}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Line returns the next line without its end. The bytes are valid until the next call. It returns [io.EOF] when the proxy has ended
// the stream.
func (s *Stream) Line() ([]byte, error) {
	if s.lines.Scan() {
		if s.silent != nil {
			s.silent.Reset(s.after)
		}
		return s.lines.Bytes(), nil
	}
	err := s.lines.Err()
	switch {
	case s.ctx.Err() != nil:
		return nil, s.client.broken(s.ctx, err)
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("the proxy at %s sent a line of more than %d bytes", s.client.address, maxLine)
	case err != nil:
		return nil, &UnreachableError{s.client.address, reason(err)}
	}
	return nil, io.EOF
}

// Event returns the next server-sent event: its name and data (WHATWG HTML, section 9.2.6). Comments, ids and events without data are
// skipped. The data is valid until the next call. It returns [io.EOF] when the proxy has ended the stream.
func (s *Stream) Event() (name string, data []byte, err error) {
	isData := false
	for {
		line, err := s.Line()
		if err != nil {
			return "", nil, err
		}
		if len(line) == 0 {
			if isData {
				return name, data, nil
			}
			name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if isData {
				data = append(data, '\n')
			}
			data, isData = append(data, value...), true
		}
	}
}

// Close ends the stream.
func (s *Stream) Close() error {
	if s.silent != nil {
		s.silent.Stop()
	}
	s.cancel(nil)
	return s.body.Close()
}
