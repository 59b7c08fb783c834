package frame

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// The examples of RFC 6455, section 5.7.
func TestExamplesOfTheRFC(t *testing.T) {
	big := make([]byte, 65536)
	tests := []struct {
		name    string
		wire    []byte
		header  Header
		size    int
		payload []byte
	}{
		{"single-frame unmasked text", unhex(t, "81 05 48 65 6c 6c 6f"), Header{Fin: true, Opcode: Text, Length: 5}, 2, []byte("Hello")},
		{
			"single-frame masked text", unhex(t, "81 85 37 fa 21 3d 7f 9f 4d 51 58"),
			Header{Fin: true, Opcode: Text, Masked: true, Mask: testKey, Length: 5},
			6, []byte("Hello"),
		},
		{"fragment 1", unhex(t, "01 03 48 65 6c"), Header{Opcode: Text, Length: 3}, 2, []byte("Hel")},
		{"fragment 2", unhex(t, "80 02 6c 6f"), Header{Fin: true, Opcode: Continuation, Length: 2}, 2, []byte("lo")},
		{"unmasked ping", unhex(t, "89 05 48 65 6c 6c 6f"), Header{Fin: true, Opcode: Ping, Length: 5}, 2, []byte("Hello")},
		{
			"masked pong", unhex(t, "8a 85 37 fa 21 3d 7f 9f 4d 51 58"),
			Header{Fin: true, Opcode: Pong, Masked: true, Mask: testKey, Length: 5},
			6, []byte("Hello"),
		},
		{"256 bytes binary", join(unhex(t, "82 7e 01 00"), big[:256]), Header{Fin: true, Opcode: Binary, Length: 256}, 4, big[:256]},
		{
			"64 KiB binary", join(unhex(t, "82 7f 00 00 00 00 00 01 00 00"), big),
			Header{Fin: true, Opcode: Binary, Length: 65536},
			10, big,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h, size, err := ParseHeader(test.wire)
			if err != nil || h != test.header || size != test.size {
				t.Fatalf("ParseHeader: %+v, %d, %v; want %+v, %d", h, size, err, test.header, test.size)
			}
			payload := bytes.Clone(test.wire[size:])
			ApplyMask(payload, h.Mask)
			if !bytes.Equal(payload, test.payload) {
				t.Errorf("payload %.20q, want %.20q", payload, test.payload)
			}
			if wire := Append(nil, h, test.payload); !bytes.Equal(wire, test.wire) {
				t.Errorf("Append: % .20x, want % .20x", wire, test.wire)
			}
			for n := range size {
				if _, got, err := ParseHeader(test.wire[:n]); got != 0 || err != nil {
					t.Errorf("first %d bytes: size %d, %v; want 0 and no error", n, got, err)
				}
			}
		})
	}
}

func TestHeaderErrors(t *testing.T) {
	tests := []struct {
		name string
		wire string // just enough to detect it
		want error
	}{
		{"RSV1", "c1", ErrReservedBits},
		{"RSV2", "a2", ErrReservedBits},
		{"RSV3", "90", ErrReservedBits},
		{"RSV1 on ping", "c9", ErrReservedBits},
		{"opcode 3", "83", ErrReservedOpcode},
		{"opcode 4", "84", ErrReservedOpcode},
		{"opcode 5", "85", ErrReservedOpcode},
		{"opcode 6", "86", ErrReservedOpcode},
		{"opcode 7", "87", ErrReservedOpcode},
		{"opcode 7 fragmented", "07", ErrReservedOpcode},
		{"opcode b", "8b", ErrReservedOpcode},
		{"opcode c", "8c", ErrReservedOpcode},
		{"opcode d", "8d", ErrReservedOpcode},
		{"opcode e", "8e", ErrReservedOpcode},
		{"opcode f", "8f", ErrReservedOpcode},
		{"close without FIN", "08", ErrFragmentedControl},
		{"ping without FIN", "09", ErrFragmentedControl},
		{"pong without FIN", "0a", ErrFragmentedControl},
		{"ping of 126", "89 7e", ErrLongControl},
		{"masked close of 126", "88 fe", ErrLongControl},
		{"pong of 127", "8a 7f", ErrLongControl},
		{"0 in two bytes", "82 7e 00 00", ErrLengthEncoding},
		{"125 in two bytes", "82 7e 00 7d", ErrLengthEncoding},
		{"125 in eight bytes", "82 7f 00 00 00 00 00 00 00 7d", ErrLengthEncoding},
		{"65535 in eight bytes", "82 7f 00 00 00 00 00 00 ff ff", ErrLengthEncoding},
		{"64 bits", "82 7f 80 00 00 00 00 00 00 00", ErrLengthEncoding},
		{"64 bits, all set", "82 ff ff ff ff ff ff ff ff ff", ErrLengthEncoding},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wire := unhex(t, test.wire)
			if _, size, err := ParseHeader(wire); !errors.Is(err, test.want) || size != 0 {
				t.Errorf("size %d, %v; want 0 and %v", size, err, test.want)
			}
			if _, _, err := ParseHeader(wire[:len(wire)-1]); err != nil {
				t.Errorf("a byte less: %v, although it cannot be known yet", err)
			}
			if _, _, err := ParseHeader(join(wire, make([]byte, 20))); !errors.Is(err, test.want) {
				t.Errorf("followed by more bytes: %v, want %v", err, test.want)
			}
		})
	}
}

func TestHeaderLengthLimits(t *testing.T) {
	for _, length := range []int64{0, 1, 125, 126, 127, 65535, 65536, 1<<31 - 1, 1 << 32, 1<<63 - 1} {
		h := Header{Fin: true, Opcode: Binary, Length: length}
		got, size, err := ParseHeader(AppendHeader(nil, h))
		if err != nil || got != h {
			t.Errorf("length %d: %+v, %v", length, got, err)
		}
		want := 2
		if length > 125 {
			want = 4
		}
		if length > 65535 {
			want = 10
		}
		if size != want {
			t.Errorf("length %d: header of %d bytes, want %d", length, size, want)
		}
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Header{
			Fin:    rapid.Bool().Draw(t, "fin"),
			Opcode: rapid.SampledFrom([]Opcode{Continuation, Text, Binary, Close, Ping, Pong}).Draw(t, "opcode"),
			Masked: rapid.Bool().Draw(t, "masked"),
			Length: rapid.Int64Min(0).Draw(t, "length"),
		}
		if h.Opcode.IsControl() {
			h.Fin, h.Length = true, h.Length%(MaxControlPayload+1)
		}
		if h.Masked {
			h.Mask = rapid.Uint32().Draw(t, "mask")
		}
		prefix := []byte("kept")
		wire := AppendHeader(prefix, h)
		if !bytes.HasPrefix(wire, prefix) {
			t.Fatalf("AppendHeader changed what was there: %q", wire)
		}
		wire = wire[len(prefix):]
		if len(wire) > MaxHeaderSize {
			t.Fatalf("%d bytes, over MaxHeaderSize", len(wire))
		}
		got, size, err := ParseHeader(append(bytes.Clone(wire), 1, 2, 3))
		if err != nil || got != h || size != len(wire) {
			t.Fatalf("%+v, %d, %v; want %+v, %d", got, size, err, h, len(wire))
		}
		for n := range len(wire) {
			if _, size, err := ParseHeader(wire[:n]); size != 0 || err != nil {
				t.Fatalf("first %d of %d bytes: size %d, %v", n, len(wire), size, err)
			}
		}
	})
}

// Append must not change the payload: it may be sent to many peers.
func TestAppendKeepsThePayload(t *testing.T) {
	payload := []byte("kept as it is")
	wire := Append(nil, Header{Fin: true, Opcode: Text, Masked: true, Mask: testKey, Length: 99}, payload)
	if string(payload) != "kept as it is" {
		t.Errorf("payload is %q now", payload)
	}
	h, size, err := ParseHeader(wire)
	if err != nil || h.Length != int64(len(payload)) || size+len(payload) != len(wire) {
		t.Errorf("%+v, %d, %v: the length must be the payload's", h, size, err)
	}
}

func TestOpcode(t *testing.T) {
	tests := []struct {
		opcode  Opcode
		name    string
		control bool
	}{
		{Continuation, "continuation", false},
		{Text, "text", false},
		{Binary, "binary", false},
		{3, "reserved", false},
		{Close, "close", true},
		{Ping, "ping", true},
		{Pong, "pong", true},
		{0xf, "reserved", true},
	}
	for _, test := range tests {
		if test.opcode.String() != test.name || test.opcode.IsControl() != test.control {
			t.Errorf("%#x: %q, control %v; want %q, %v", byte(test.opcode), test.opcode, test.opcode.IsControl(), test.name, test.control)
		}
	}
}
