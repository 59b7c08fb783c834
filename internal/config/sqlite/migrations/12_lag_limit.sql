-- How late results may come before a server gets no new sessions.

-- +goose Up

ALTER TABLE services ADD COLUMN lag_limit TEXT;
