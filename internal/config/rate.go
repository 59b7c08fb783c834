package config

import "github.com/wsbouncer/wsbouncer/internal/access/limits"

// limitFields are the fields for the limits of a tenant or a key. Only those who send have a message-rate: a key, a token and a client's
// address. Many small messages cost more than their bytes, so a byte-rate does not stop a client that sends them. A sum over many clients
// needs no count of its own.
func limitFields(l *limits.Limits) []field {
	helps := []string{ // without audio-idle, which only services have
		limits.Sessions:    "maximum concurrent sessions; 0 for no limit",
		limits.SessionRate: "maximum rate of new sessions",
		limits.ByteRate:    "maximum rate of bytes from all clients",
		limits.MessageRate: "maximum rate of messages from all clients",
		limits.MaxMessage:  "maximum size of a client's message; 0 for the service's limit",
		limits.MaxSession:  "maximum duration of a session; 0 for the service's limit",
		limits.AudioQuota:  "maximum audio that clients send and get per day or month (UTC)",
		limits.IdleTimeout: "end a session after this time without a message; 0 for the service's limit",
	}
	var fields []field
	for limit, help := range helps {
		fields = append(fields, field{limits.Limit(limit).String(), "", help, l.Value(limits.Limit(limit))})
	}
	return fields
}
