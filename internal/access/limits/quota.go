package limits

import (
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// Quota is how much audio may be used in each day or month, in UTC. The zero value is no limit.
type Quota struct {
	Audio time.Duration // 0 for no limit
	Month bool          // in each month, instead of each day
}

const quotaAllowed = "a duration of audio for each day or month (UTC), such as 10h/day or 300h/month; 0 for no limit"

// ParseQuota reads a quota: 10h/day, 300h/month, or 0 for no limit.
func ParseQuota(text string) (Quota, error) {
	if text == "0" {
		return Quota{}, nil
	}
	duration, per, _ := strings.Cut(text, "/")
	var q Quota
	if err := value.NewDuration(&q.Audio, 0).Set(duration); err != nil || q.Audio < time.Second || per != "day" && per != "month" {
		return Quota{}, value.Invalid("quota", text, quotaAllowed)
	}
	q.Month = per == "month"
	return q, nil
}

// String is the reverse of [ParseQuota].
func (q Quota) String() string {
	switch {
	case q.Audio <= 0:
		return "0"
	case q.Month:
		return value.NewDuration(&q.Audio, 0).Text() + "/month"
	}
	return value.NewDuration(&q.Audio, 0).Text() + "/day"
}

type quotaValue struct{ p *Quota }

func (v quotaValue) Text() string    { return v.p.String() }
func (v quotaValue) Allowed() string { return quotaAllowed }

func (v quotaValue) Set(text string) error {
	q, err := ParseQuota(text)
	if err == nil {
		*v.p = q
	}
	return err
}

// AudioUsed returns how much audio a tenant or key has used in the present period of a quota, and when the next one begins. Any goroutine but an event
// loop's may call it.
type AudioUsed func(kind Kind, name string, q Quota) (used time.Duration, renews time.Time)

// SetAudioUsed sets what knows how much audio was used. Without it, no quota is reached.
func (r *Registry) SetAudioUsed(f AudioUsed) { r.audioUsed.Store(&f) }

// Left is what a quota leaves.
type Left struct {
	Audio  time.Duration // 0 if the quota is used up
	Renews time.Time
	Cause  Cause // the quota
}

// AudioLeft returns what the strictest of a session's quotas leaves; nil if it has none.
func (r *Registry) AudioLeft(h *Hold) (least *Left) {
	f := r.audioUsed.Load()
	if f == nil || !h.HasQuota() {
		return nil
	}
	for _, s := range h.scopes {
		q := s.limits.Load().AudioQuota
		if q.Audio <= 0 {
			continue
		}
		used, renews := (*f)(s.kind, s.name, q)
		if left := max(q.Audio-used, 0); least == nil || left < least.Audio || left == least.Audio && renews.After(least.Renews) {
			least = &Left{left, renews, Cause{s, AudioQuota}}
		}
	}
	return least
}

// Copy returns what [Registry.AudioLeft] can be asked with while the owner of the hold adds places. It is not to be released.
func (h *Hold) Copy() *Hold { return &Hold{scopes: slices.Clone(h.scopes)} }

// HasQuota reports whether a quota applies to the session.
func (h *Hold) HasQuota() bool {
	if h != nil {
		for _, s := range h.scopes {
			if s.limits.Load().AudioQuota.Audio > 0 {
				return true
			}
		}
	}
	return false
}
