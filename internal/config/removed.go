package config

import "fmt"

// verified is the field that only 'wsbouncer profile verify' writes.
const verified = "verified"

// removed are the fields that earlier versions had, with what to use instead.
var removed = map[Kind]map[string]string{
	KindService: {
		"hash-by":          "use balance, such as balance: hash:header:NAME",
		"dial-parallel":    "at most 32 connections are dialed at once to each backend",
		"reset-timeout":    "use reset.timeout and leave.timeout of a profile of your own",
		"tcp-user-timeout": "use ping-interval and ping-timeout, whose sum it is now",
		"message-rate":     "use byte-rate, or client-message-rate to limit each client address",
	},
	KindTenant: {"message-rate": "use byte-rate, or message-rate of keys"},
}

// RemovedFields returns the fields that entities of a kind no longer have, by name, with the error that says what to use instead.
func RemovedFields(kind Kind) map[string]error {
	all := make(map[string]error, len(removed[kind]))
	for name, instead := range removed[kind] {
		all[name] = fmt.Errorf("the field %s no longer exists: %s", name, instead)
	}
	return all
}

// FromEarlier returns the fields of an entity that an earlier version has stored as this version has them.
func FromEarlier(kind Kind, values Values) Values {
	now := make(Values, len(values))
	for name, text := range values {
		if _, gone := removed[kind][name]; !gone {
			now[name] = text
		}
	}
	if by := values["hash-by"]; kind == KindService && by != "" && values["balance"] == balanceHash {
		now["balance"] = balanceHash + ":" + by
	}
	return now
}
