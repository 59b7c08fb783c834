-- The age of a connection before which a session moves to another one.

-- +goose Up

ALTER TABLE wsbouncer.services ADD COLUMN session_age text;
