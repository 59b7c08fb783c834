-- How many sessions servers take (published, found by calibrate, or lowered by late results), and what clients have used.

-- +goose Up

-- The number of connections may be "auto": as many as the server publishes, and at most connections_max.
-- The triggers name columns that go. The program makes them anew.
DROP TRIGGER IF EXISTS backends_added;
DROP TRIGGER IF EXISTS backends_changed;
DROP TRIGGER IF EXISTS backends_removed;

ALTER TABLE backends RENAME COLUMN connections TO old_connections; -- whose values SQLite checks
ALTER TABLE backends ADD COLUMN connections TEXT CHECK (connections = 'auto' OR CAST(connections AS INTEGER) BETWEEN 1 AND 100000);
UPDATE backends SET connections = old_connections;
ALTER TABLE backends DROP COLUMN old_connections;
ALTER TABLE backends ADD COLUMN connections_max INTEGER CHECK (connections_max BETWEEN 1 AND 100000);

-- What 'wsbouncer calibrate' has found on a backend's server.
ALTER TABLE backends ADD COLUMN calibrated TEXT;

-- How late results may come before a server gets no new sessions.
ALTER TABLE services ADD COLUMN lag_limit TEXT;

-- What clients have used, and how much audio they may use. The rows of usage are no part of the configuration: they have no history. A row is of one
-- process and hour, and its numbers only grow. Times are in microseconds.
ALTER TABLE tenants ADD COLUMN audio_quota TEXT;
ALTER TABLE keys ADD COLUMN audio_quota TEXT;

CREATE TABLE usage (
    hour TEXT NOT NULL,
    process TEXT NOT NULL,
    service TEXT NOT NULL,
    tenant TEXT NOT NULL,
    api_key TEXT NOT NULL,
    sessions INTEGER NOT NULL,
    in_micros INTEGER NOT NULL,
    in_estimated INTEGER NOT NULL,
    in_bytes INTEGER NOT NULL,
    in_unknown INTEGER NOT NULL,
    out_micros INTEGER NOT NULL,
    out_estimated INTEGER NOT NULL,
    out_bytes INTEGER NOT NULL,
    out_unknown INTEGER NOT NULL,
    results INTEGER NOT NULL,
    PRIMARY KEY (hour, process, service, tenant, api_key)
) WITHOUT ROWID;
