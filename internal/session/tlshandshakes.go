package session

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
)

// tlsVersions are the versions that are counted: those that a listener may allow, and none for handshakes that failed before the version was
// agreed on.
var tlsVersions = [...]uint16{0, tls.VersionTLS12, tls.VersionTLS13}

// tlsVersionName returns a version as metrics have it.
func tlsVersionName(version uint16) string {
	if version == 0 {
		return "none"
	}
	return strings.TrimPrefix(tls.VersionName(version), "TLS ")
}

// TLSHandshakes is how many TLS handshakes of clients had a result.
type TLSHandshakes struct {
	Result  string // see tlsResultNames
	Version string // 1.2 or 1.3; none if it failed before the version was agreed on
	Count   uint64
}

// tlsHandshakes counts TLS handshakes of clients, and logs those that fail: of each result a few at once, and a few a second after that. It
// may be used from any goroutine.
type tlsHandshakes struct {
	out     *slog.Logger // static
	results [tlsResults][len(tlsVersions)]atomic.Uint64

	mu       sync.Mutex
	limiters [tlsResults]*rate.Limiter // guarded by mu; nil until it is needed
	leftOut  [tlsResults]uint64        // guarded by mu: since the last line about them
	timer    *time.Timer               // guarded by mu; nil unless lines were left out
	closed   bool                      // guarded by mu
}

func (h *tlsHandshakes) init(log *slog.Logger) { h.out = log }

// count counts a handshake.
func (h *tlsHandshakes) count(result tlsResult, version uint16) {
	h.results[result][max(0, slices.Index(tlsVersions[:], version))].Add(1)
}

// counts returns the counts that are not 0.
func (h *tlsHandshakes) counts() (all []TLSHandshakes) {
	for result := range h.results {
		for i := range h.results[result] {
			if n := h.results[result][i].Load(); n > 0 {
				all = append(all, TLSHandshakes{tlsResultNames[result], tlsVersionName(tlsVersions[i]), n})
			}
		}
	}
	return all
}

// failed writes a line about a handshake that failed, unless there were too many. Clients that leave, as load balancers do that only see
// whether the port is open, are worth a line to those only who want to see each step.
func (h *tlsHandshakes) failed(f *tlsFailure, a *arrival) {
	level := slog.LevelInfo
	if f.result == tlsLeft {
		level = slog.LevelDebug
	}
	now := time.Now()
	if !h.out.Enabled(context.Background(), level) || level == slog.LevelInfo && !h.allow(f.result, now) {
		return
	}
	attrs := appendTexts([]slog.Attr{slog.String("client", a.Address.String())}, "peer", a.Peer.Text())
	h.out.LogAttrs(context.Background(), level, "TLS handshake failed", append(attrs,
		slog.String("result", tlsResultNames[f.result]), slog.String("reason", printable.Text(f.Error(), maxReason)), slog.Duration("after", now.Sub(a.Arrived)))...)
}

// allow reports whether there may be a line now about a handshake with that result. Otherwise it counts it.
func (h *tlsHandshakes) allow(result tlsResult, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.limiters[result] == nil {
		h.limiters[result] = rate.NewLimiter(refusalsPerSecond, refusalsAtOnce)
	}
	if h.limiters[result].AllowN(now, 1) {
		return true
	}
	h.leftOut[result]++
	if h.timer == nil && !h.closed {
		h.timer = time.AfterFunc(tellLeftOut, h.tell)
	}
	return false
}

// tell writes one line about all that was left out.
func (h *tlsHandshakes) tell() {
	h.mu.Lock()
	leftOut := h.leftOut
	h.leftOut, h.timer = [tlsResults]uint64{}, nil
	h.mu.Unlock()
	count, byResult := uint64(0), []string(nil)
	for result, n := range leftOut {
		if count += n; n > 0 {
			byResult = append(byResult, fmt.Sprintf("%s: %d", tlsResultNames[result], n))
		}
	}
	if count > 0 {
		h.out.Info("failed TLS handshakes left out of the log", "count", count, "by_result", strings.Join(byResult, ", "))
	}
}

// close tells what was left out, and starts no timer any more.
func (h *tlsHandshakes) close() {
	h.mu.Lock()
	h.closed = true
	if h.timer != nil {
		h.timer.Stop()
	}
	h.mu.Unlock()
	h.tell()
}
