-- What 'wsbouncer calibrate' has found on a backend's server.

-- +goose Up

ALTER TABLE wsbouncer.backends ADD COLUMN calibrated text;
