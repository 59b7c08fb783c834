-- What happens in sessions whose clients are silent.

-- +goose Up

ALTER TABLE wsbouncer.services ADD COLUMN keepalive boolean;
