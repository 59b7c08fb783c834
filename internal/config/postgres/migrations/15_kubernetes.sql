-- The servers of a backend may be found by the EndpointSlices of Kubernetes.

-- +goose Up

ALTER TABLE wsbouncer.backends DROP CONSTRAINT backends_discover_check;
ALTER TABLE wsbouncer.backends ADD CONSTRAINT backends_discover_check CHECK (discover IN ('dns', 'kubernetes'));
