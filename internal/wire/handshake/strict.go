package handshake

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// This file refuses requests that others could read differently. A load balancer in front of the proxy, which takes such bytes for
// another request, another host or another end of the request, could be made to let something pass that it means to stop (request
// smuggling). net/http is lenient in some of these cases.

// maxFields is how many fields the header of a request may have. Each costs much more memory than its bytes.
const maxFields = 200

// checkHead checks the head of a request, which ends with its empty line, before net/http reads it (RFC 9112, sections 2 to 6). It returns
// nil, or the refusal to answer with. host is the value of the field Host; empty without one.
func checkHead(head []byte) (host string, refusal *Refusal) {
	if refusal := checkBytes(head); refusal != nil {
		return "", refusal
	}
	line, rest, _ := bytes.Cut(head, crlf)
	if refusal := checkRequestLine(string(line)); refusal != nil {
		return "", refusal
	}
	hosts, lengths := 0, 0
	for fields := 0; ; fields++ {
		if line, rest, _ = bytes.Cut(rest, crlf); len(line) == 0 {
			return host, nil
		}
		if fields == maxFields {
			return "", &Refusal{
				Status: http.StatusRequestHeaderFieldsTooLarge, Reason: fmt.Sprintf("the header has more than %d fields", maxFields),
			}
		}
		if line[0] == ' ' || line[0] == '\t' { // RFC 9112, section 5.2
			return "", malformed("a header field is continued in a second line")
		}
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok || !IsToken(string(name)) { // a space before the colon, too (RFC 9112, section 5.1)
			return "", malformed("a line of the header is no field")
		}
		switch {
		case bytes.EqualFold(name, []byte("Host")):
			if hosts++; hosts > 1 {
				return "", malformed("too many Host headers")
			}
			host = string(bytes.Trim(value, " \t"))
			if !isHost(host) {
				return "", malformed("the Host header is no host")
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			return "", badRequest("a WebSocket request must not have a body: it has a Transfer-Encoding header")
		case bytes.EqualFold(name, []byte("Content-Length")):
			if lengths++; lengths > 1 {
				return "", malformed("too many Content-Length headers")
			}
		}
	}
}

var crlf = []byte("\r\n")

func malformed(what string) *Refusal { return badRequest("malformed HTTP request: " + what) }

func badRequest(reason string) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Reason: reason}
}

// checkBytes checks that lines end as they must, and that nothing else in them moves a terminal or ends a text in C.
func checkBytes(head []byte) *Refusal {
	for i, b := range head {
		switch {
		case b == '\n' && (i == 0 || head[i-1] != '\r'):
			return malformed("a line ends with a bare line feed")
		case b == '\r' && (i+1 == len(head) || head[i+1] != '\n'):
			return malformed("a bare carriage return")
		case b < ' ' && b != '\r' && b != '\n' && b != '\t', b == 0x7f:
			return malformed("a control character")
		}
	}
	return nil
}

// checkRequestLine checks the first line of a request (RFC 9112, section 3).
func checkRequestLine(line string) *Refusal {
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	switch {
	case !IsToken(method), target == "", strings.ContainsAny(rest, "\t"), strings.Contains(version, " "):
		return malformed("the first line is not a method, a target and a version")
	case len(version) != len("HTTP/1.1") || version[:7] != "HTTP/1." || version[7] < '0' || version[7] > '9':
		return malformed("the version is not HTTP/1.1")
	case strings.Contains(target, "#"):
		return malformed("the target has a fragment")
	case target[0] != '/' && target != "*" && !strings.Contains(target, "://"):
		return malformed("the target is neither a path nor a URL")
	}
	return nil
}

// checkTarget checks the target that net/http has read against the field Host. A client that names a host in both names the same one
// (RFC 9112, section 3.2.2, lets the target win, and not all servers do).
func checkTarget(target *url.URL, host string) *Refusal {
	if target.Scheme == "" && target.Host == "" {
		return nil
	}
	switch target.Scheme {
	case "ws", "wss", "http", "https":
	default:
		return malformed("the target's scheme is not ws or http")
	}
	if target.User != nil || !isHost(target.Host) || target.Host == "" {
		return malformed("the target has no host, or more than a host")
	}
	if !strings.EqualFold(target.Host, host) {
		return malformed("the target and the Host header name different hosts")
	}
	return nil
}

// isHost reports whether a text can be a host, perhaps with a port, or is empty (RFC 3986, section 3.2.2).
func isHost(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return false
		}
		return !strings.ContainsRune("-._~%!$&'()*+;=:[]", r) // not ",", with which others join two values
	})
}
