-- What the canary asks for, and whether the HTTP server that decides about clients is asked about those without a credential.

-- +goose Up

ALTER TABLE wsbouncer.services ADD COLUMN canary_model text;
ALTER TABLE wsbouncer.services ADD COLUMN auth_ask_anonymous boolean;
