-- What of a client's handshake a service passes on to its backends.

-- +goose Up

ALTER TABLE wsbouncer.services ADD COLUMN pass jsonb CHECK (jsonb_typeof(pass) = 'array');
