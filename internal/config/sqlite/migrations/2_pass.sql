-- What of a client's handshake a service passes on to its backends.

-- +goose Up

ALTER TABLE services ADD COLUMN pass TEXT CHECK (json_valid(pass) AND json_type(pass) = 'array');
