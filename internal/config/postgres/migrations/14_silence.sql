-- What happens in sessions whose clients are silent.

-- +goose Up

ALTER TABLE wsbouncer.services ADD COLUMN keepalive boolean;
ALTER TABLE wsbouncer.services ADD COLUMN audio_idle text;
