package api

// Authentication is what became of clients that had to authenticate, since the start.
type Authentication struct {
	Results []AuthResult `json:"results"`
	// Blocked counts clients that got 429 because authentication had failed too often from their address, and Suspects how many addresses
	// that concerns now: failed-auth-rate is the limit.
	Blocked  uint64 `json:"blocked"`
	Suspects int    `json:"suspects"`
}

// AuthResult is how often one method had one result.
type AuthResult struct {
	Method string `json:"method"` // keys, jwt, certificate, external, or none: no method of the service could judge what the client gave
	Result string `json:"result"` // accepted, refused, or failed: the method does not work
	Count  uint64 `json:"count"`
}
