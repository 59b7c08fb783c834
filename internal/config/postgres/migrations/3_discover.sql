-- Whether a backend stands for all servers behind its DNS name.

-- +goose Up

ALTER TABLE wsbouncer.backends ADD COLUMN discover text CHECK (discover IN ('dns'));
