package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// failed is the body of an answer with an error.
type failed struct {
	Error failure `json:"error"`
}

// statusError is what the API itself has to say of a request.
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

// statuses of what a store says. A store that fails is a service that is not available at present.
var statuses = map[string]int{
	kindProblems: http.StatusUnprocessableEntity, kindConflict: http.StatusConflict, kindReadOnly: http.StatusForbidden,
	kindNoVersion: http.StatusNotFound, kindSchema: http.StatusServiceUnavailable, kindStore: http.StatusServiceUnavailable,
}

func answerError(w http.ResponseWriter, err error) {
	var own *statusError
	if errors.As(err, &own) {
		answer(w, own.status, failed{failure{Kind: own.kind, Text: own.text}})
		return
	}
	f := failureOf(err)
	answer(w, statuses[f.Kind], failed{f})
}

// answer sends JSON, which is encoded first so that a failure is not a 200 with half of it.
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
