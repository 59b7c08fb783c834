-- The number of connections may be "auto": as many as the server publishes, and at most connections_max.

-- +goose Up

ALTER TABLE wsbouncer.backends DROP CONSTRAINT backends_connections_check;
ALTER TABLE wsbouncer.backends ALTER COLUMN connections TYPE text USING connections::text;
ALTER TABLE wsbouncer.backends ADD CONSTRAINT backends_connections_check
    CHECK (CASE WHEN connections ~ '^[0-9]{1,6}$' THEN connections::integer BETWEEN 1 AND 100000 ELSE connections = 'auto' END);
ALTER TABLE wsbouncer.backends ADD COLUMN connections_max integer CHECK (connections_max BETWEEN 1 AND 100000);
