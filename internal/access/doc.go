// Package access is the storey of who clients are and how much they may use: authentication, identities, limits. Sessions, the
// configuration and what is above them import it. Nothing in it knows a session or a server.
package access
