-- How often the DNS name is looked up.

-- +goose Up

ALTER TABLE backends ADD COLUMN discover_interval TEXT;
