-- How long sessions wait for clients whose connections broke, and what else bounds them.

-- +goose Up

ALTER TABLE wsbouncer.services ADD COLUMN reconnect text;
ALTER TABLE wsbouncer.services ADD COLUMN reconnect_evict boolean;
ALTER TABLE wsbouncer.services ADD COLUMN session_age text;
ALTER TABLE wsbouncer.services ADD COLUMN keepalive boolean;
ALTER TABLE wsbouncer.services ADD COLUMN audio_idle text;
