-- What 'wsbouncer profile verify' has found on a service's servers.

-- +goose Up

ALTER TABLE wsbouncer.services ADD COLUMN verified text;
