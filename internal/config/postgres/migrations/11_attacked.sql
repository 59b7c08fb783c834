-- What the canary asks for.

-- +goose Up

ALTER TABLE wsbouncer.services ADD COLUMN canary_model text;
