package admin

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func TestReadOrder(t *testing.T) {
	text := func(s string) io.Reader { return strings.NewReader(s) }
	for _, c := range []struct {
		name   string
		body   io.Reader
		media  string
		status int
		says   string
	}{
		{"none", http.NoBody, "", 200, ""},
		{"none, though it is announced", http.NoBody, "application/json", 200, ""},
		{"empty", text("{}"), "application/json", 200, ""},
		{"whole", text(`{"who":"alice","why":"a new model – at last"}`), "application/json; charset=utf-8", 200, ""},
		{"no type", text("{}"), "", 415, `invalid Content-Type "": use application/json`},
		{"form", text("{}"), "application/x-www-form-urlencoded", 415, "use application/json"},
		{"no JSON", text("who=alice"), "application/json", 400, "invalid body: invalid character 'w'"},
		{"half", text(`{"who":`), "application/json", 400, "invalid body: unexpected EOF"},
		{"unknown field", text(`{"whom":"alice"}`), "application/json", 400, `unknown field "whom": use one of who, why`},
		{"number", text(`{"who":7}`), "application/json", 400, "cannot unmarshal number"},
		{"list", text(`[]`), "application/json", 400, "cannot unmarshal array"},
		{"two values", text(`{} {}`), "application/json", 400, "unexpected data after the JSON value"},
		{"control characters", text(`{"why":"\u001b[2J"}`), "application/json", 400, `why: invalid text "\x1b[2J": use printable characters only`},
		{"two lines", text(`{"who":"a\nlevel=ERROR"}`), "application/json", 400, "who: invalid text"},
		{"long", text(`{"who":"` + strings.Repeat("a", maxWho+1) + `"}`), "application/json", 400, "who: invalid text of 101 bytes: use at most 100"},
		{"too large", text(`{"why":"` + strings.Repeat("a", maxBody) + `"}`), "application/json", 413, "more than 65536 bytes"},
		{"slow", iotest.ErrReader(os.ErrDeadlineExceeded), "application/json", 408, "did not arrive in time"},
		{"cut", iotest.ErrReader(io.ErrUnexpectedEOF), "application/json", 400, "cannot read the request's body: unexpected EOF"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", c.body)
		r.Header.Set("Content-Type", c.media)
		w := httptest.NewRecorder()
		served(func(w http.ResponseWriter, r *http.Request) (any, error) { return readOrder(w, r) })(w, r)
		if w.Code != c.status {
			t.Errorf("%s: status %d, %s; want %d", c.name, w.Code, w.Body, c.status)
			continue
		}
		if c.status == http.StatusOK {
			continue
		}
		var got api.Failure
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Error.Kind != api.KindRequest || !strings.Contains(got.Error.Text, c.says) {
			t.Errorf("%s: %s, %v; want %s", c.name, w.Body, err, c.says)
		}
	}
}

// A body may have several structs in it, and all of their fields are named.
func TestFieldsOfEmbeddedStructs(t *testing.T) {
	r := httptest.NewRequest(http.MethodPut, "/", strings.NewReader(`{"levle":"debug"}`))
	r.Header.Set("Content-Type", "application/json")
	var level api.LogLevel
	err := readBody(httptest.NewRecorder(), r, &level)
	if err == nil || err.Error() != `invalid body: unknown field "levle": use one of level, who, why` {
		t.Error(err)
	}
}
