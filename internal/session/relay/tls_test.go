package relay

import (
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// overTLS has the tests' servers be reached by TLS, and the proxy by its clients, too.
var overTLS bool

// To sessions it makes no difference that servers and clients speak TLS.
func TestOverTLS(t *testing.T) {
	overTLS = true
	defer func() { overTLS = false }()
	for name, test := range map[string]func(*testing.T){
		"Backpressure": TestBackpressure, "BackpressureBothWays": TestBackpressureBothWays, "CloseOfSlowClient": TestCloseOfSlowClient,
		"SlowClientIsGivenUp": TestSlowClientIsGivenUp, "MoveWhileStreaming": TestMoveWhileStreaming,
		"ClientCloses": TestClientCloses, "BackendCloses": TestBackendCloses, "BackendLost": TestBackendLost,
		"BackendLostInFrame": TestBackendLostInFrame, "ClientBreaksProtocol": TestClientBreaksProtocol,
		"OneShotRelaysClose": TestOneShotRelaysClose, "OneShotClientGoneAfterClose": TestOneShotClientGoneAfterClose,
		"EchoReusesConnection": TestEchoReusesConnection, "EchoDropsLateAnswers": TestEchoDropsLateAnswers,
		"EchoClientVanishes": TestEchoClientVanishes, "BehindTheLastFrame": TestBehindTheLastFrame,
		"UnsolicitedAnswer": TestUnsolicitedAnswer, "ManyClientsFewConnections": TestManyClientsFewConnections,
		"EndReplacedByReset": TestEndReplacedByReset, "EndInPieces": TestEndInPieces, "HeldBackAndReleased": TestHeldBackAndReleased,
		"AwaitedGreeting": TestAwaitedGreeting, "Keepalive": TestKeepalive, "Fence": TestFence, "AllBusy": TestAllBusy,
		"TellsQueue": TestTellsQueue, "ToldAndTimedOut": TestToldAndTimedOut,
	} {
		t.Run(name, test)
	}
}

// Messages of all sizes come back as they were, in TLS 1.2 and 1.3, one after the other and all at once.
func TestSizesOverTLS(t *testing.T) {
	overTLS = true
	defer func() { overTLS = false }()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			s := &wstest.Server{Serve: wstest.Echo, MaxTLS: version}
			r := newRig(t, setup{Profile: "echo", Script: s})
			p := r.Join()
			sizes := []int{0, 1, 125, 126, 1 << 10, 16<<10 - 8, 16<<10 - 7, 16 << 10, 48 << 10, 64<<10 - 1, 64 << 10, 1 << 20}
			for _, size := range sizes {
				payload := wstest.Noise(byte(size), size)
				sent := make(chan error, 1)
				go func() {
					_, err := p.Conn.Write(p.Encode(true, frame.Binary, payload))
					sent <- err
				}()
				p.Expect(frame.Binary, string(payload))
				if err := <-sent; err != nil {
					t.Fatal(err)
				}
			}
			const burst = 5000
			sent := make(chan error, 1)
			go func() {
				var all []byte
				for i := range burst {
					all = append(all, p.Encode(true, frame.Text, fmt.Append(nil, i))...)
				}
				_, err := p.Conn.Write(all)
				sent <- err
			}()
			for i := range burst {
				p.Expect(frame.Text, fmt.Sprint(i))
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			p.CloseNormally()
		})
	}
}

// Pings of the proxy are answered over TLS, be the connection idle or in use, and what TLS itself has to say in between (session
// tickets) is no unsolicited data.
func TestPingsOverTLS(t *testing.T) {
	overTLS = true
	defer func() { overTLS = false }()
	l := newLively()
	r := newRig(t, setup{
		Profile: "echo", Script: &wstest.Server{Serve: l.serve},
		Backend: func(o *backend.Options) { o.PingInterval, o.PingTimeout = 10*time.Millisecond, wstest.Timeout },
	})
	r.Ready(1)
	l.awaitPings(t, 3)
	p := r.Join()
	l.awaitPings(t, 3)
	p.CloseNormally()
	r.Ready(1)
	if s := r.Backend.Stats(); s.Totals.Dialed != 1 {
		t.Errorf("%d connections were dialed; want 1: %+v", s.Totals.Dialed, s.Totals.Reasons)
	}
}

func BenchmarkSessionRelayTLS(b *testing.B) {
	overTLS = true
	defer func() { overTLS = false }()
	BenchmarkSessionRelay(b)
}
