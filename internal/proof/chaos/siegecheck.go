package chaos

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// goodToken is the credential that the server accepts which is asked about clients.
const goodToken = "good"

// checkTime is how long that server takes for an answer, so that a few hundred clients keep it busy.
const checkTime = 100 * time.Millisecond

// startCheck starts a server that is asked about clients.
func startCheck() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = wait(r.Context(), checkTime)
		if r.Header.Get("Authorization") != "Bearer "+goodToken {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
}

// asks returns an attack that asks for a service with a credential, and leaves when it has an answer.
func asks(credentials ...string) func(a *attack) error {
	return func(a *attack) error {
		request := a.request("")
		if c := credentials[a.dice.IntN(len(credentials))]; c != "" {
			request = strings.Replace(request, "\r\n\r\n", "\r\nAuthorization: Bearer "+c+"\r\n\r\n", 1)
		}
		if err := a.write([]byte(request)); err != nil {
			return err
		}
		return a.answer()
	}
}

// primes has the proxy see handshakes that are slow but come to their end, and says nothing after that.
func primes(a *attack) error {
	if a.dice.IntN(50) > 0 {
		return saysNothing(a)
	}
	request := a.request("")
	if err := a.write([]byte(request[:20])); err != nil {
		return err
	}
	if err := wait(a.ctx, 2*time.Second); err != nil {
		return err
	}
	if err := a.write([]byte(request[20:])); err != nil {
		return err
	}
	return a.answer()
}
