package config

import (
	"encoding/json"

	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// MapText returns the text of a field that holds texts by name; empty for none.
func MapText(entries map[string]string) string { return value.NewMap(&entries, "", nil).Text() }

// MapOf is the reverse of [MapText]; nil for what is no such text.
func MapOf(text string) map[string]string {
	var entries map[string]string
	if json.Unmarshal([]byte(text), &entries) != nil {
		return nil
	}
	return entries
}

// ListText returns the text of a field that holds several texts; empty for none.
func ListText(list []string) string { return value.NewList(&list, "", nil).Text() }

// ListOf is the reverse of [ListText]; nil for what is no such text.
func ListOf(text string) []string {
	var list []string
	if json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	return list
}
