-- How long sessions wait for clients whose connections broke.

-- +goose Up

ALTER TABLE wsbouncer.services ADD COLUMN reconnect text;
ALTER TABLE wsbouncer.services ADD COLUMN reconnect_evict boolean;
