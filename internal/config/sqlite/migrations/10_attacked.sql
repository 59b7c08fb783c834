-- What the canary asks for, and whether the HTTP server that decides about clients is asked about those without a credential.

-- +goose Up

ALTER TABLE services ADD COLUMN canary_model TEXT;
ALTER TABLE services ADD COLUMN auth_ask_anonymous TEXT CHECK (auth_ask_anonymous IN ('true', 'false'));
