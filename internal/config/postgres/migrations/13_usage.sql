-- What clients have used, and how much audio they may use. The rows of usage are no part of the configuration: they have no history. A row is of one
-- process and hour, and its numbers only grow. Times are in microseconds.

-- +goose Up

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
