-- How long sessions wait for clients whose connections broke, and what else bounds them.

-- +goose Up

ALTER TABLE services ADD COLUMN reconnect TEXT;
ALTER TABLE services ADD COLUMN reconnect_evict TEXT CHECK (reconnect_evict IN ('true', 'false'));
ALTER TABLE services ADD COLUMN session_age TEXT;
ALTER TABLE services ADD COLUMN keepalive TEXT CHECK (keepalive IN ('true', 'false'));
ALTER TABLE services ADD COLUMN audio_idle TEXT;
