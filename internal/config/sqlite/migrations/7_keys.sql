-- API keys: their hashes, and what each may use.

-- +goose Up

CREATE TABLE keys (
    name TEXT NOT NULL PRIMARY KEY CHECK (name <> ''),
    tenant TEXT,
    hash TEXT NOT NULL CHECK (hash LIKE 'sha256:%'),
    expires TEXT,
    services TEXT CHECK (json_valid(services) AND json_type(services) = 'array'),
    session_limit INTEGER CHECK (session_limit BETWEEN 0 AND 2147483647),
    session_rate TEXT,
    byte_rate TEXT,
    message_rate TEXT,
    max_message TEXT,
    max_session TEXT,
    idle_timeout TEXT
) STRICT;
