package config

import "github.com/wsbouncer/wsbouncer/internal/config/value"

// Unknown says that a name is not one of those there are, and which one was probably meant.
func Unknown(what, name string, known []string) string { return value.Unknown(what, name, known) }
