package config

import "github.com/wsbouncer/wsbouncer/internal/access/limits"

// limitFields are the fields for the limits of an entity: of a tenant, or of a key. of says whose they are. Only those who send have a
// message-rate: a key, a token and a client's address. Many small messages cost more than their bytes, so a byte-rate does not stop a
// client that sends them. A sum over many clients needs no count of its own.
func limitFields(of string, l *limits.Limits) []field {
	helps := []string{ // without audio-idle, which only services have
		limits.Sessions:    "maximum number of sessions of the " + of + " at once; 0 for no limit",
		limits.SessionRate: "maximum rate of new sessions of the " + of + "; 0 for no limit",
		limits.ByteRate:    "maximum rate of bytes that the clients of the " + of + " send; 0 for no limit",
		limits.MessageRate: "maximum rate of messages that the clients of the " + of + " send; 0 for no limit",
		limits.MaxMessage:  "maximum size of a message from a client of the " + of + "; 0 for the service's limit",
		limits.MaxSession:  "maximum duration of a session of the " + of + "; 0 for the service's limit",
		limits.AudioQuota:  "maximum audio that the clients of the " + of + " send and get in each day or month (UTC), such as 10h/day; 0 for no limit",
		limits.IdleTimeout: "end a session of the " + of + " after this time without a frame; 0 for the service's limit",
	}
	var fields []field
	for limit, help := range helps {
		fields = append(fields, field{limits.Limit(limit).String(), "", help, l.Value(limits.Limit(limit))})
	}
	return fields
}
