package api

import "time"

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
	By       []string  // of UsageOrders
}

// UsageBy are what a report has a row for each of.
var UsageBy = []string{"tenant", "key", "service"}

// UsageReport is what clients have used in some hours.
type UsageReport struct {
	From time.Time  `json:"from"`
	To   time.Time  `json:"to"`
	Rows []UsageRow `json:"rows"`
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
