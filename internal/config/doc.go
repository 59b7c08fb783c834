// Package config is the storey of the desired state of the proxy: its services, backends, profiles, tenants and keys. The wiring (app) and the
// commands (cli) import it; nothing on the path of a frame does.
//
// A [Content] is that state; a [Snapshot] is a valid content with a version, and never changes. [Diff] describes the differences between two contents for operators, and a
// [Store] keeps a content that can be changed while the proxy runs.
//
// This package does no I/O except to resolve secrets ([Resolve]), and knows nothing of pools or sessions: the proxy loads a snapshot
// and applies it. A field has the same name here, as a flag, in files and in the admin API.
package config
