-- What 'wsbouncer calibrate' has found on a backend's server.

-- +goose Up

ALTER TABLE backends ADD COLUMN calibrated TEXT;
