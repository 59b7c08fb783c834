// Package protocol is the storey of what messages mean: profiles, what must be kept for the next server, how a client of a speech server
// speaks. Servers, sessions, the configuration and what is above them import it. It knows neither pools nor sessions.
package protocol
