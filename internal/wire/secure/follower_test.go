package secure

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
)

// step is what happened at one end of a connection: it has read or written bytes, or logged a secret.
type step struct {
	kind  string // read, write, secret
	bytes []byte
}

// recorder is the transport of a tls.Conn, and its key log.
type recorder struct {
	*Line
	steps []step
}

func (r *recorder) note(kind string, b []byte) {
	r.steps = append(r.steps, step{kind, bytes.Clone(b)})
}

func (r *recorder) Read(b []byte) (int, error) {
	n, err := r.Line.Read(b)
	r.note("read", b[:n])
	return n, err
}

func (r *recorder) Write(b []byte) (int, error) {
	r.note("write", b)
	return r.Line.Write(b)
}

type secrets struct{ *recorder }

func (s secrets) Write(b []byte) (int, error) {
	s.note("secret", b)
	return len(b), nil
}

// sink takes what is written.
type sink struct{ net.Conn }

func (sink) Write(b []byte) (int, error) { return len(b), nil }

// record returns what has happened at one end of a connection of that version, which has sent and got a message.
func record(t *testing.T, version uint16, client bool) (steps []step, conn *tls.Conn) {
	t.Helper()
	forServer, forClient := securetest.NewAuthority(t).Loopback()
	forClient.MinVersion, forClient.MaxVersion = version, version
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	r := &recorder{Line: &Line{Conn: a}}
	config, other := forServer, tls.Client(b, forClient)
	if client {
		config, other = forClient, tls.Server(b, forServer)
	}
	config = config.Clone()
	config.KeyLogWriter = secrets{r}
	conn = tls.Server(r, config)
	if client {
		conn = tls.Client(r, config)
	}
	talk := func(c *tls.Conn) error {
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	failed := make(chan error, 1)
	go func() {
		if err := other.Handshake(); err != nil {
			failed <- err
			return
		}
		_, err := io.ReadFull(other, make([]byte, 1))
		if err == nil {
			_, err = other.Write([]byte("y"))
		}
		failed <- err
	}()
	if err := talk(conn); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	return r.steps, conn
}

// replay shows a Line the steps of a connection, and returns what the record layer that it hands over seals next; nil if it hands none over.
// The bytes that are written are written in two pieces, of which the first ends at split; a split of 0 is for none.
func replay(steps []step, conn *tls.Conn, client bool, split int) []byte {
	l := &Line{Conn: sink{}}
	if client {
		l.follow(true)
	}
	written := 0
	for _, s := range steps {
		if s.kind != "read" && l.follower == nil { // crypto/tls has read the ClientHello
			l.follow(false)
		}
		switch s.kind {
		case "read":
			l.early = bytes.Clone(s.bytes)
			for rest := len(s.bytes); rest > 0; {
				n, _ := l.Read(make([]byte, rest))
				rest -= n
			}
		case "secret":
			_, _ = keyLog{l}.Write(bytes.Clone(s.bytes))
		case "write":
			at := split - written
			written += len(s.bytes)
			if at <= 0 || at >= len(s.bytes) {
				_, _ = l.Write(s.bytes)
				continue
			}
			_, _ = l.Write(s.bytes[:at])
			_, _ = l.Write(s.bytes[at:])
		}
	}
	records, _ := l.Release(conn)
	if records == nil {
		return nil
	}
	return records.Seal(nil, []byte("the next record"))
}

// However crypto/tls might split what it writes, the record layer that is handed over counts as it does, or none is handed over: a record that
// was counted otherwise would be sealed with a nonce that was used before.
func TestEverySplit(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, client := range []bool{false, true} {
			steps, conn := record(t, version, client)
			want := replay(steps, conn, client, 0)
			if want == nil {
				t.Fatalf("%s, client %v: nothing is handed over", tls.VersionName(version), client)
			}
			boundaries, total := make(map[int]bool), 0
			for _, s := range steps {
				for b := s.bytes; s.kind == "write" && len(b) > 0; {
					size := recordHeader + int(b[3])<<8 + int(b[4])
					b, total = b[size:], total+size
					boundaries[total] = true
				}
			}
			for split := 1; split < total; split++ {
				got := replay(steps, conn, client, split)
				if boundaries[split] && !bytes.Equal(got, want) || !boundaries[split] && got != nil {
					t.Errorf("%s, client %v: split at %d (between records: %v): handed over %v", tls.VersionName(version), client, split, boundaries[split], got != nil)
				}
			}
		}
	}
}

// A record that crypto/tls has sealed and that does not open, in either direction and wherever it stands after the keys are known, ends the following.
func TestEveryRecordCounts(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, client := range []bool{false, true} {
			steps, conn := record(t, version, client)
			sealed := false
			for i, s := range steps {
				sealed = sealed || s.kind == "secret"
				if !sealed || s.kind == "secret" || len(s.bytes) < recordHeader+16 {
					continue
				}
				changed := append([]step(nil), steps...)
				changed[i].bytes = bytes.Clone(s.bytes)
				changed[i].bytes[len(s.bytes)-1] ^= 1
				if isProtected := s.bytes[0] == 23 || s.kind == "write" && version == tls.VersionTLS13; isProtected && replay(changed, conn, client, 0) != nil {
					t.Errorf("%s, client %v: handed over although what was %s at step %d does not open", tls.VersionName(version), client, s.kind, i)
				}
			}
		}
	}
}
