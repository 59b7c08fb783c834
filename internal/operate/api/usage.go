package api

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// UsagePath is GET /api/v1/usage: what clients have used. The query has the fields of UsageQuery.
const UsagePath = "/api/v1/usage"

// Usage is what clients have used: audio, and results.
type Usage struct {
	// AudioInSeconds is the audio that clients have sent, as far as its duration is known, and AudioInEstimatedSeconds the part of it that is estimated by the
	// size of the messages around the audio.
	AudioInSeconds          float64 `json:"audio_in_seconds"`
	AudioInEstimatedSeconds float64 `json:"audio_in_estimated_seconds,omitempty"`
	// AudioInUnknownBytes is the payload that clients have sent in a format whose duration is not known, such as compressed audio.
	AudioInUnknownBytes uint64 `json:"audio_in_unknown_bytes,omitempty"`
	// AudioOut is the same for audio that servers have sent.
	AudioOutSeconds          float64 `json:"audio_out_seconds,omitempty"`
	AudioOutEstimatedSeconds float64 `json:"audio_out_estimated_seconds,omitempty"`
	AudioOutUnknownBytes     uint64  `json:"audio_out_unknown_bytes,omitempty"`
	Results                  uint64  `json:"results"` // messages that servers have sent
}

// UsageQuery chooses what a report has.
type UsageQuery struct {
	From, To time.Time // whole hours; To is not included
	By       []string  // of UsageBy
}

// UsageBy are what a report has a row for each of.
var UsageBy = []string{"tenant", "key", "service"}

// UsageReport is what clients have used in some hours.
type UsageReport struct {
	From time.Time  `json:"from"`
	To   time.Time  `json:"to"`
	Rows []UsageRow `json:"rows"`
	// Problem is why what clients use is not written to disk or not booked now, or was dropped from memory; empty if it is.
	Problem string `json:"problem,omitempty"`
}

// UsageRow is what the clients of a tenant, key and service have used. Those that the report does not distinguish are left out.
type UsageRow struct {
	Tenant   *string `json:"tenant,omitempty"` // empty for none
	Key      *string `json:"key,omitempty"`    // the name of the API key; empty for none
	Service  *string `json:"service,omitempty"`
	Sessions uint64  `json:"sessions"` // that have begun
	Usage
	BytesFromClients  uint64 `json:"bytes_from_clients"`
	BytesFromBackends uint64 `json:"bytes_from_backends"`
}

// ParseUsageQuery reads the query of a URL. By default, it is about the month until now, by tenant, key and service.
func ParseUsageQuery(values url.Values, now time.Time) (q UsageQuery, err error) {
	now = now.UTC()
	q = UsageQuery{From: time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC), To: now, By: UsageBy}
	for name, all := range values {
		value := all[len(all)-1]
		switch name {
		case "from", "to":
			at, err := time.Parse(time.RFC3339, value)
			if err != nil {
				return q, fmt.Errorf("%s: invalid time %.40q: use a time such as 2026-11-27T03:00:00Z", name, value)
			}
			if name == "from" {
				q.From = at.UTC()
			} else {
				q.To = at.UTC()
			}
		case "by":
			q.By = strings.Split(value, ",")
			for i, by := range q.By {
				if slices.Contains(q.By[:i], by) {
					return q, fmt.Errorf("by: %.40q is named twice: name it once", by)
				}
				if !slices.Contains(UsageBy, by) {
					return q, fmt.Errorf("by: unknown %.40q: use one or more of %s, with commas between them", by, strings.Join(UsageBy, ", "))
				}
			}
		default:
			return q, fmt.Errorf("unknown parameter %.40q: use from, to or by", name)
		}
	}
	q.From = q.From.Truncate(time.Hour)
	if end := q.To.Truncate(time.Hour); end.Before(q.To) {
		q.To = end.Add(time.Hour)
	}
	if !q.From.Before(q.To) {
		return q, fmt.Errorf("from is not before to: it is %s, and to is %s", q.From.Format(time.RFC3339), q.To.Format(time.RFC3339))
	}
	return q, nil
}

// Values returns the query of a URL.
func (q *UsageQuery) Values() url.Values {
	v := make(url.Values)
	if !q.From.IsZero() {
		v.Set("from", q.From.Format(time.RFC3339))
	}
	if !q.To.IsZero() {
		v.Set("to", q.To.Format(time.RFC3339))
	}
	if len(q.By) > 0 {
		v.Set("by", strings.Join(q.By, ","))
	}
	return v
}
