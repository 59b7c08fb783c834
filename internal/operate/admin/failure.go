package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Error is an error that the API answers with its status. The functions of a [Source] return one where a caller is to learn more
// than that something failed.
type Error struct {
	Status  int
	Kind    string // one of the kinds of package api
	Text    string // what is wrong, the value, and what is allowed
	Nearest string // the known name that is most like an unknown one; empty if none is
	// RetryAfter is how long the caller should wait before it tries again; 0 if that does not help.
	RetryAfter time.Duration
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// BadRequest is the error for a request that is not understood.
func BadRequest(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Kind: api.KindRequest, Text: fmt.Sprintf(format, args...)}
}

// Unknown is the error for a name or id that nothing has. what says what it names, such as service; known are those that exist.
func Unknown(what, name string, known []string) *Error {
	nearest := spelling.Nearest(name, known)
	return &Error{
		Status: http.StatusNotFound, Kind: api.KindUnknown, Nearest: nearest,
		Text: spelling.UnknownNear(what, cut(name), nearest, known).Error(),
	}
}

// WrongState is the error for an action that the state of its target does not allow.
func WrongState(format string, args ...any) *Error {
	return &Error{Status: http.StatusConflict, Kind: api.KindState, Text: fmt.Sprintf(format, args...)}
}

// Busy is the error for a stream when too many are open.
func Busy(format string, args ...any) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Kind: api.KindBusy, Text: fmt.Sprintf(format, args...)}
}

// cut shortens what a caller has sent, for error messages.
func cut(text string) string { return fmt.Sprintf("%.100s", text) }

func wrongType(sent string) *Error {
	return &Error{
		Status: http.StatusUnsupportedMediaType, Kind: api.KindRequest,
		Text: fmt.Sprintf("invalid Content-Type %.100q: use application/json", sent),
	}
}

// answerError answers a request that failed. An error that is no [Error] is a failure of the proxy.
func answerError(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Status: http.StatusInternalServerError, Kind: api.KindInternal, Text: err.Error()}
	}
	var body api.Failure
	body.Error.Kind, body.Error.Text, body.Error.Nearest = e.Kind, e.Text, e.Nearest
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="wsbouncer admin"`)
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if w, ok := w.(*watched); ok {
		w.failure = e
	}
	encoded, err := encode(body)
	if err != nil { // it has nothing but texts
		encoded = []byte(`{"error":{"kind":"internal","text":"the error cannot be encoded"}}`)
	}
	answer(w, e.Status, "application/json", encoded)
}

// answerMethod answers a request with a method that its path does not have (RFC 9110, section 15.5.6).
func answerMethod(w http.ResponseWriter, r *http.Request, allowed []string) {
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	slices.Sort(allowed)
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	answerError(w, &Error{
		Status: http.StatusMethodNotAllowed, Kind: api.KindRequest,
		Text: fmt.Sprintf("unknown method %.20q for %s: use %s", r.Method, cut(r.URL.Path), spelling.OneOf(allowed)),
	})
}

// encode returns a value as indented JSON. It is called before the status is sent, so that an encoding error does not become a 200
// with half a body.
func encode(body any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(body); err != nil {
		return nil, fmt.Errorf("the answer cannot be encoded: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// inTime replaces the error of a body that did not arrive before the server's deadline ([Limits.Request]).
func inTime(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &Error{Status: http.StatusRequestTimeout, Kind: api.KindRequest, Text: "the request's body did not arrive in time"}
	}
	return BadRequest("cannot read the request's body: %v", err)
}
