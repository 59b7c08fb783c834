package config

import (
	"encoding/json"
)

// MapText returns the text of a field that holds texts by name; empty for none.
func MapText(entries map[string]string) string { return mapValue{p: &entries}.text() }

// MapOf is the reverse of [MapText]; nil for what is no such text.
func MapOf(text string) map[string]string {
	var entries map[string]string
	if json.Unmarshal([]byte(text), &entries) != nil {
		return nil
	}
	return entries
}

// ListText returns the text of a field that holds several texts; empty for none.
func ListText(list []string) string { return listValue{p: &list}.text() }

// ListOf is the reverse of [ListText]; nil for what is no such text.
func ListOf(text string) []string {
	var list []string
	if json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	return list
}
