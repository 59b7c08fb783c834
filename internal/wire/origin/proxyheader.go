package origin

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pires/go-proxyproto"
)

// The PROXY protocol is described in https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt; sections are those of that text.

const (
	signature1 = "PROXY "                                           // section 2.1
	signature2 = "\x0D\x0A\x0D\x0A\x00\x0D\x0A\x51\x55\x49\x54\x0A" // section 2.2
	max1       = 107                                                // the longest header of version 1 (section 2.1)
	fixed2     = len(signature2) + 4                                // the part of version 2 that all headers have
	max2       = 4096                                               // the most that may follow it: addresses, and a certificate
	local2     = 0x20                                               // version 2, command LOCAL
	proxy2     = 0x21                                               // version 2, command PROXY
)

// HeaderError says what is wrong with a connection's PROXY header. It repeats nothing of the header.
type HeaderError struct{ Reason string }

// Error implements error.
func (e *HeaderError) Error() string { return e.Reason }

func badHeader(format string, args ...any) error {
	return &HeaderError{"bad PROXY header: " + fmt.Sprintf(format, args...)}
}

// HasProxyHeader reports whether what a connection has sent first is the beginning of a PROXY header.
func HasProxyHeader(sent []byte) bool {
	return bytes.HasPrefix(sent, []byte(signature1)) || bytes.HasPrefix(sent, []byte(signature2))
}

// ReadProxyHeader reads the PROXY header with which a connection from a trusted peer begins. found is false if it begins with something else.
// source is the address that the header states; the zero value if it states none (LOCAL, UNKNOWN, or an address that is not TCP's), so
// that the peer's holds. behind is what was read that does not belong to the header, at most 107 bytes, for the next reader.
//
// It blocks as r does; the caller bounds its time. The error is a [*HeaderError], or what r returned; io.EOF only if nothing was sent.
func ReadProxyHeader(r io.Reader) (source Address, found bool, behind []byte, err error) {
	buf, n := make([]byte, max1), 0
	for {
		m, err := r.Read(buf[n:])
		n += m
		sent := buf[:n]
		switch {
		case bytes.HasPrefix(sent, []byte(signature1)):
			if i := bytes.IndexByte(sent, '\n'); i >= 0 {
				source, err = decode(sent[:i+1])
				return source, true, sent[i+1:], err
			}
			if n == max1 {
				return Address{}, true, nil, badHeader("version 1 has at most %d bytes, the line feed included", max1)
			}
		case n >= fixed2 && bytes.HasPrefix(sent, []byte(signature2)):
			return read2(r, sent)
		case !beginsLike(sent, signature1) && !beginsLike(sent, signature2):
			return Address{}, false, sent, nil
		}
		switch {
		case err == io.EOF && n > 0:
			return Address{}, false, nil, io.ErrUnexpectedEOF
		case err != nil:
			return Address{}, false, nil, err
		}
	}
}

// beginsLike reports whether one of sent and signature begins with the other.
func beginsLike(sent []byte, signature string) bool {
	n := min(len(sent), len(signature))
	return string(sent[:n]) == signature[:n]
}

// read2 reads the rest of a header of version 2, of which at least its fixed part was sent.
func read2(r io.Reader, sent []byte) (source Address, found bool, behind []byte, err error) {
	command, family := sent[len(signature2)], sent[len(signature2)+1]
	length := int(binary.BigEndian.Uint16(sent[len(signature2)+2:]))
	switch {
	case command>>4 != 2:
		return source, true, nil, badHeader("its version is %d: use 1 or 2", command>>4)
	case command != local2 && command != proxy2:
		return source, true, nil, badHeader("its command is %d: use LOCAL (0) or PROXY (1)", command&0xf)
	case length > max2:
		return source, true, nil, badHeader("%d bytes follow its fixed part: at most %d may", length, max2)
	}
	header := sent
	if size := fixed2 + length; size <= len(sent) {
		header, behind = sent[:size], sent[size:]
	} else {
		header = make([]byte, size)
		if _, err := io.ReadFull(r, header[copy(header, sent):]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return source, true, nil, err
		}
	}
	// A health check of the load balancer itself, or a client whose address it does not know: the peer's address holds.
	if command == local2 || proxyproto.AddressFamilyAndProtocol(family) == proxyproto.UNSPEC {
		return source, true, behind, nil
	}
	source, err = decode(header)
	return source, true, behind, err
}

// decode returns the source address of a whole header; the zero value for none (UNKNOWN in version 1), or one that is not TCP's.
func decode(header []byte) (Address, error) {
	h, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(header), len(header)))
	switch {
	case errors.Is(err, proxyproto.ErrInvalidAddress):
		return Address{}, badHeader("an address of it is invalid, or not of the family that it names")
	case errors.Is(err, proxyproto.ErrInvalidPortNumber):
		return Address{}, badHeader("a port of it is invalid")
	case errors.Is(err, proxyproto.ErrInvalidLength):
		return Address{}, badHeader("it is too short for its addresses")
	case errors.Is(err, proxyproto.ErrUnsupportedAddressFamilyAndProtocol), errors.Is(err, proxyproto.ErrCantReadAddressFamilyAndProtocol):
		return Address{}, badHeader("its address family or protocol is unknown, or something is missing")
	case errors.Is(err, proxyproto.ErrLineMustEndWithCrlf):
		return Address{}, badHeader("its line must end with CR and LF")
	case err != nil:
		return Address{}, badHeader("it is malformed")
	}
	return AddressOf(h.SourceAddr), nil
}
