-- What clients have used, and how much audio they may use. The rows of usage are no part of the configuration: they have no history. A row is of one
-- process and hour, and its numbers only grow. Times are in microseconds.

-- +goose Up

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
