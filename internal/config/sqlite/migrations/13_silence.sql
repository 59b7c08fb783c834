-- What happens in sessions whose clients are silent.

-- +goose Up

ALTER TABLE services ADD COLUMN keepalive TEXT CHECK (keepalive IN ('true', 'false'));
ALTER TABLE services ADD COLUMN audio_idle TEXT;
