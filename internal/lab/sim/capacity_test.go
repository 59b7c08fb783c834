package sim

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/capacity"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Each server publishes its capacity where its profile says that it is.
func TestPublishedCapacity(t *testing.T) {
	t.Parallel()
	for _, name := range profile.Names() {
		p, err := profile.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		if !capacity.Own(p) {
			continue
		}
		s, err := Start(Options{Protocol: name, Sessions: 5})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		path := map[string]string{"kyutai": "/api/asr-streaming", "kyutai-tts": "/api/tts_streaming?format=PcmMessagePack"}[name]
		target, err := handshake.ParseTarget(s.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		client, err := target.Dial(wstest.Context(t))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer client.Conn.Close()
		want := capacity.Reading{Total: 5, Used: 1}
		if p.Capacity().Total.URL == "" {
			want.Total = capacity.Unknown
		}
		if p.Capacity().Used.URL == "" {
			want.Used = capacity.Unknown
		}
		if r, err := capacity.Read(wstest.Context(t), p, target); err != nil || r != want {
			t.Errorf("%s: %+v, %v; want %+v", name, r, err, want)
		}
		s.Publish(-1)
		if r, err := capacity.Read(wstest.Context(t), p, target); err == nil {
			t.Errorf("%s without its page: %+v", name, r)
		}
	}
}
