-- Whether a backend stands for all servers behind its DNS name.

-- +goose Up

ALTER TABLE backends ADD COLUMN discover TEXT CHECK (discover IN ('dns'));
