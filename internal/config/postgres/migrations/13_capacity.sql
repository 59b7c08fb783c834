-- How many sessions servers take (published, found by calibrate, or lowered by late results), and what clients have used.

-- +goose Up

-- The number of connections may be "auto": as many as the server publishes, and at most connections_max.
ALTER TABLE wsbouncer.backends DROP CONSTRAINT backends_connections_check;
ALTER TABLE wsbouncer.backends ALTER COLUMN connections TYPE text USING connections::text;
ALTER TABLE wsbouncer.backends ADD CONSTRAINT backends_connections_check
    CHECK (CASE WHEN connections ~ '^[0-9]{1,6}$' THEN connections::integer BETWEEN 1 AND 100000 ELSE connections = 'auto' END);
ALTER TABLE wsbouncer.backends ADD COLUMN connections_max integer CHECK (connections_max BETWEEN 1 AND 100000);

-- What 'wsbouncer calibrate' has found on a backend's server.
ALTER TABLE wsbouncer.backends ADD COLUMN calibrated text;

-- How late results may come before a server gets no new sessions.
ALTER TABLE wsbouncer.services ADD COLUMN lag_limit text;

-- What clients have used, and how much audio they may use. The rows of usage are no part of the configuration: they have no history. A row is of one
-- process and hour, and its numbers only grow. Times are in microseconds.
ALTER TABLE wsbouncer.tenants ADD COLUMN audio_quota text;
ALTER TABLE wsbouncer.keys ADD COLUMN audio_quota text;

CREATE TABLE wsbouncer.usage (
    hour text NOT NULL,
    process text NOT NULL,
    service text NOT NULL,
    tenant text NOT NULL,
    api_key text NOT NULL,
    sessions bigint NOT NULL,
    in_micros bigint NOT NULL,
    in_estimated bigint NOT NULL,
    in_bytes bigint NOT NULL,
    in_unknown bigint NOT NULL,
    out_micros bigint NOT NULL,
    out_estimated bigint NOT NULL,
    out_bytes bigint NOT NULL,
    out_unknown bigint NOT NULL,
    results bigint NOT NULL,
    PRIMARY KEY (hour, process, service, tenant, api_key)
) WITH (fillfactor = 50);
