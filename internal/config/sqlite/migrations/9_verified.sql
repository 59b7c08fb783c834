-- What 'wsbouncer profile verify' has found on a service's servers.

-- +goose Up

ALTER TABLE services ADD COLUMN verified TEXT;
