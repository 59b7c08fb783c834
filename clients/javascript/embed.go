// Package javascript has the client for browsers and Node, for the demonstration's page.
package javascript

import _ "embed"

// ResumingWebSocket is the module.
//
//go:embed resuming-websocket.js
var ResumingWebSocket []byte
