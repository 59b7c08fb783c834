package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"unicode"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// maxBody is the maximum size of a request's body in bytes. (Changes of the configuration have their own limit.)
const maxBody = 64 << 10

// readBody decodes a request's JSON body into a struct. It refuses unknown fields, since their values would be lost. A request without
// a body leaves the struct as it is.
func readBody(w http.ResponseWriter, r *http.Request, to any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &Error{
			Status: http.StatusRequestEntityTooLarge, Kind: api.KindRequest, Text: fmt.Sprintf("the request's body has more than %d bytes", tooLarge.Limit),
		}
	}
	if err != nil {
		return inTime(err)
	}
	if len(body) == 0 {
		return nil
	}
	if !isJSON(r) {
		return wrongType(r.Header.Get("Content-Type"))
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		return BadRequest("invalid body: %s: use %s", strings.TrimPrefix(err.Error(), "json: "), spelling.OneOf(fields(reflect.TypeOf(to).Elem())))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return BadRequest("invalid body: unexpected data after the JSON value")
	}
	return nil
}

// fields returns the names of a struct's fields in JSON.
func fields(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			names = append(names, fields(field.Type)...)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// Limits on the texts of an order, in bytes.
const (
	maxWho = 100
	maxWhy = 500
)

// readOrder reads the body of a request for an action.
func readOrder(w http.ResponseWriter, r *http.Request) (order api.Order, err error) {
	err = readWithOrder(w, r, &order, &order)
	return order, err
}

// readWithOrder reads the body of a request for an action, with its order, which is the body or a part of it.
func readWithOrder(w http.ResponseWriter, r *http.Request, body any, order *api.Order) error {
	if err := readBody(w, r, body); err != nil {
		return err
	}
	if err := checkOrder(order); err != nil {
		return err
	}
	ordered(r, *order)
	return nil
}

// checkOrder checks texts that go to the log, to terminals, and to clients.
func checkOrder(order *api.Order) error {
	for _, field := range []struct {
		name, value string
		most        int
	}{{"who", order.Who, maxWho}, {"why", order.Why, maxWhy}} {
		if len(field.value) > field.most {
			return BadRequest("%s: invalid text of %d bytes: use at most %d", field.name, len(field.value), field.most)
		}
		if strings.ContainsFunc(field.value, func(c rune) bool { return !unicode.IsPrint(c) }) {
			return BadRequest("%s: invalid text %.100q: use printable characters only", field.name, field.value)
		}
	}
	return nil
}
