package frame

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSendable(t *testing.T) {
	allowed := func(code int) bool {
		switch code {
		case 1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014:
			return true
		}
		return code >= 3000 && code < 5000
	}
	for code := range 1 << 16 {
		if got := CloseCode(code).Sendable(); got != allowed(code) {
			t.Errorf("%d: %v", code, got)
		}
	}
}

func TestParseClose(t *testing.T) {
	longest := strings.Repeat("x", MaxCloseReason)
	tests := []struct {
		name    string
		payload string
		code    CloseCode
		reason  string
		err     error
	}{
		{"empty", "", NoStatus, "", nil},
		{"one byte", "\x03", 0, "", ErrClosePayload},
		{"code only", "\x03\xe8", NormalClosure, "", nil},
		{"code and reason", "\x03\xe9bye", GoingAway, "bye", nil},
		{"longest", "\x03\xe8" + longest, NormalClosure, longest, nil},
		{"reason in Japanese", "\x0f\xa0終わり", 4000, "終わり", nil},
		{"0", "\x00\x00", 0, "", ErrCloseCode},
		{"999", "\x03\xe7", 999, "", ErrCloseCode},
		{"1004", "\x03\xec", 1004, "", ErrCloseCode},
		{"1005", "\x03\xed", NoStatus, "", ErrCloseCode},
		{"1006", "\x03\xeegone", AbnormalClosure, "gone", ErrCloseCode},
		{"1015", "\x03\xf7", TLSHandshakeFail, "", ErrCloseCode},
		{"1016", "\x03\xf8", 1016, "", ErrCloseCode},
		{"2999", "\x0b\xb7", 2999, "", ErrCloseCode},
		{"5000", "\x13\x88", 5000, "", ErrCloseCode},
		{"65535", "\xff\xff", 65535, "", ErrCloseCode},
		{"bad UTF-8", "\x03\xe8\xff", NormalClosure, "\xff", ErrCloseReason},
		{"incomplete UTF-8", "\x03\xe8ab\xe3\x81", NormalClosure, "ab\xe3\x81", ErrCloseReason},
		{"surrogate", "\x03\xe8\xed\xa0\x80", NormalClosure, "\xed\xa0\x80", ErrCloseReason},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, reason, err := ParseClose([]byte(test.payload))
			if code != test.code || string(reason) != test.reason || !errors.Is(err, test.err) {
				t.Errorf("%v, %q, %v; want %v, %q, %v", code, reason, err, test.code, test.reason, test.err)
			}
		})
	}
}

func TestAppendClosePayload(t *testing.T) {
	tests := []struct {
		name   string
		code   CloseCode
		reason string
		want   string
	}{
		{"no status", NoStatus, "lost", ""},
		{"code only", NormalClosure, "", "\x03\xe8"},
		{"reason", InternalError, "why", "\x03\xf3why"},
		{"just fits", PolicyViolation, strings.Repeat("x", 123), "\x03\xf0" + strings.Repeat("x", 123)},
		{"one too long", PolicyViolation, strings.Repeat("x", 124), "\x03\xf0" + strings.Repeat("x", 123)},
		{"fits at a character's end", PolicyViolation, strings.Repeat("あ", 42), "\x03\xf0" + strings.Repeat("あ", 41)},
		{"cut within a character", PolicyViolation, "xx" + strings.Repeat("あ", 41), "\x03\xf0xx" + strings.Repeat("あ", 40)},
		{"four-byte characters", PolicyViolation, strings.Repeat("😀", 31), "\x03\xf0" + strings.Repeat("😀", 30)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := AppendClosePayload([]byte("<"), test.code, test.reason); string(got) != "<"+test.want {
				t.Errorf("%q, want %q", got, "<"+test.want)
			}
		})
	}
}

// Whatever the reason is, the close frame must be one that a peer accepts.
func TestClosePayloadIsAlwaysAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		code := CloseCode(rapid.SampledFrom([]int{1000, 1001, 1002, 1007, 1011, 1013, 3000, 4999}).Draw(t, "code"))
		reason := rapid.StringN(0, 200, -1).Draw(t, "reason")
		payload := AppendClosePayload(nil, code, reason)
		if len(payload) > MaxControlPayload {
			t.Fatalf("payload of %d bytes", len(payload))
		}
		gotCode, gotReason, err := ParseClose(payload)
		if err != nil || gotCode != code || !strings.HasPrefix(reason, string(gotReason)) {
			t.Fatalf("%v, %q, %v", gotCode, gotReason, err)
		}
		if len(reason) > MaxCloseReason && len(gotReason) <= MaxCloseReason-utf8.UTFMax {
			t.Fatalf("only %d bytes of the reason were kept", len(gotReason))
		}
	})
}

// The errors are sent to peers as they are, so each code must be sendable, and each reason must fit.
func TestErrorsCanBeSent(t *testing.T) {
	tests := []struct {
		err  *Error
		code CloseCode
	}{
		{ErrReservedBits, 1002},
		{ErrReservedOpcode, 1002},
		{ErrFragmentedControl, 1002},
		{ErrLongControl, 1002},
		{ErrLengthEncoding, 1002},
		{ErrNotMasked, 1002},
		{ErrMasked, 1002},
		{ErrNoMessage, 1002},
		{ErrInMessage, 1002},
		{ErrClosePayload, 1002},
		{ErrCloseCode, 1002},
		{ErrCloseReason, 1007},
		{ErrText, 1007},
		{ErrMessageSize, 1009},
	}
	seen := map[string]bool{}
	for _, test := range tests {
		if test.err.Code != test.code || !test.err.Code.Sendable() {
			t.Errorf("%v: code %v, want %v", test.err, test.err.Code, test.code)
		}
		if n := len(test.err.Reason); n == 0 || n > MaxCloseReason || test.err.Error() != test.err.Reason || seen[test.err.Reason] {
			t.Errorf("reason %q", test.err.Reason)
		}
		seen[test.err.Reason] = true
	}
	if CloseCode(1002).String() != "1002" {
		t.Errorf("code as text: %q", CloseCode(1002).String())
	}
}
