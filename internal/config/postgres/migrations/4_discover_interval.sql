-- How often the DNS name is looked up.

-- +goose Up

ALTER TABLE wsbouncer.backends ADD COLUMN discover_interval text;
