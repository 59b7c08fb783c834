package admin

import (
	_ "embed"
	"net/http"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// openAPI is the description of the API (OpenAPI 3.1). Tests hold it against the routes, the types of package api, and the answers of a
// running proxy.
//
//go:embed openapi.json
var openAPI []byte

// openAPIRoutes returns GET /api/v1/openapi.json.
func openAPIRoutes() []route {
	return []route{{path: api.OpenAPIPath, methods: methods{http.MethodGet: func(w http.ResponseWriter, r *http.Request) {
		if err := onlyParameters(r); err != nil {
			answerError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-cache") // another version of the proxy may have another one
		_, _ = w.Write(openAPI)                     // a client that has gone needs no answer
	}}}}
}
