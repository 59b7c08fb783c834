-- The servers of a backend may be found by the EndpointSlices of Kubernetes.

-- +goose Up

-- The triggers name a column that goes. The program makes them anew.
DROP TRIGGER IF EXISTS backends_added;
DROP TRIGGER IF EXISTS backends_changed;
DROP TRIGGER IF EXISTS backends_removed;

ALTER TABLE backends RENAME COLUMN discover TO old_discover; -- whose values SQLite checks
ALTER TABLE backends ADD COLUMN discover TEXT CHECK (discover IN ('dns', 'kubernetes'));
UPDATE backends SET discover = old_discover;
ALTER TABLE backends DROP COLUMN old_discover;
