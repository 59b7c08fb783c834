package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// failed is the body of an error answer.
type failed struct {
	Error failure `json:"error"`
}

// statusError is an error of the API itself, not of the store.
type statusError struct {
	status int
	kind   string
	text   string
}

// Error implements error.
func (e *statusError) Error() string { return e.text }

func badRequest(format string, args ...any) error {
	return &statusError{http.StatusBadRequest, kindRequest, fmt.Sprintf(format, args...)}
}

// answerMethod answers a request with a method that its path does not have (RFC 9110, section 15.5.6).
func answerMethod(w http.ResponseWriter, r *http.Request, allowed string) {
	if allowed == http.MethodGet {
		allowed = "GET, HEAD"
	}
	w.Header().Set("Allow", allowed)
	answerError(w, &statusError{http.StatusMethodNotAllowed, kindRequest, fmt.Sprintf("unknown method %.20q for %.100s: use %s", r.Method, r.URL.Path, allowed)})
}

// statuses are the HTTP statuses for errors of a store. If the store fails, the API is unavailable for the moment (503).
var statuses = map[string]int{
	kindProblems: http.StatusUnprocessableEntity, kindConflict: http.StatusConflict, kindReadOnly: http.StatusForbidden,
	kindNoVersion: http.StatusNotFound, kindSchema: http.StatusServiceUnavailable, kindStore: http.StatusServiceUnavailable,
}

func answerError(w http.ResponseWriter, err error) {
	if own, ok := errors.AsType[*statusError](err); ok {
		answer(w, own.status, failed{failure{Kind: own.kind, Text: own.text}})
		return
	}
	f := failureOf(err)
	answer(w, statuses[f.Kind], failed{f})
}

// answer sends JSON. It encodes the body first, so that an encoding error does not become a 200 with half a body.
func answer(w http.ResponseWriter, status int, body any) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(body); err != nil {
		http.Error(w, "the answer cannot be encoded: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a client that has gone needs no answer
}
