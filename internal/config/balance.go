package config

import (
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// balances are the ways to choose a backend, the default first. A test compares them with those of package pool.
var balances = []string{"least-loaded", "round-robin", "random-two", hashByClient, hashByHeader + "NAME", hashByQuery + "NAME"}

// The balances that choose the same backend for the same client, by what identifies the client.
const (
	balanceHash  = "hash"
	hashByClient = balanceHash + ":client" // its address
	hashByHeader = balanceHash + ":header:"
	hashByQuery  = balanceHash + ":query:"
)

// BalanceParts returns the name of a balance, and the header or the query parameter that identifies clients; empty for none.
func BalanceParts(balance string) (name, header, query string) {
	name, _, _ = strings.Cut(balance, ":")
	header, byHeader := strings.CutPrefix(balance, hashByHeader)
	query, byQuery := strings.CutPrefix(balance, hashByQuery)
	switch {
	case byHeader:
		return name, header, ""
	case byQuery:
		return name, "", query
	}
	return name, "", ""
}

// readBalance returns the canonical form of a balance. Like earlier versions, it takes hash for hash:client.
func readBalance(text string) (string, error) {
	if text == balanceHash {
		text = hashByClient
	}
	_, header, query := BalanceParts(text)
	if !slices.Contains(balances, text) && !profile.IsToken(header) && query == "" {
		return "", spelling.Unknown("balance", text, balances)
	}
	return text, nil
}
