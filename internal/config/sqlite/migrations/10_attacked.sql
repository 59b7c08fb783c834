-- What the canary asks for.

-- +goose Up

ALTER TABLE services ADD COLUMN canary_model TEXT;
