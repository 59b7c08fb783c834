-- How late results may come before a server gets no new sessions.

-- +goose Up

ALTER TABLE wsbouncer.services ADD COLUMN lag_limit text;
