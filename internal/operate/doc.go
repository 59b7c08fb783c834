// Package operate is the storey of what operators see and do: the admin API and its client, the dashboard, metrics, logs of requests, traces,
// the diagnosis and the problems that it finds. The proxy's wiring (app), the fleet, the remote configuration and the commands import it; the path of a frame never does.
package operate
