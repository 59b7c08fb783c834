-- Those who share the proxy, and what each may use.

-- +goose Up

CREATE TABLE tenants (
    name TEXT NOT NULL PRIMARY KEY CHECK (name <> ''),
    share REAL CHECK (share BETWEEN 0.01 AND 1000),
    guaranteed TEXT CHECK (json_valid(guaranteed) AND json_type(guaranteed) = 'object'),
    session_limit INTEGER CHECK (session_limit BETWEEN 0 AND 2147483647),
    session_rate TEXT,
    byte_rate TEXT,
    message_rate TEXT,
    max_message TEXT,
    max_session TEXT,
    idle_timeout TEXT
) STRICT;
