-- The configuration: a row for each profile, service and backend, whose columns are named after their fields; null is the
-- default. The history fills itself by triggers, whoever writes; they name each column, so that the program makes them
-- (triggers.go).

-- +goose Up

CREATE TABLE profiles (
    name TEXT NOT NULL PRIMARY KEY CHECK (name <> ''),
    yaml TEXT NOT NULL
) STRICT;

CREATE TABLE services (
    name TEXT NOT NULL PRIMARY KEY CHECK (name <> ''),
    path TEXT CHECK (path LIKE '/%'),
    host TEXT,
    profile TEXT,
    subprotocol TEXT,
    allow_origin TEXT CHECK (json_valid(allow_origin) AND json_type(allow_origin) = 'array'),
    balance TEXT CHECK (balance IN ('least-loaded', 'round-robin', 'random-two', 'hash')),
    hash_by TEXT,
    queue INTEGER CHECK (queue BETWEEN 0 AND 1000000),
    queue_timeout TEXT,
    max_message TEXT,
    idle_timeout TEXT,
    max_session TEXT,
    connection_max_age TEXT,
    connection_max_idle TEXT,
    connection_max_sessions INTEGER CHECK (connection_max_sessions BETWEEN 0 AND 2147483647),
    dial_parallel INTEGER CHECK (dial_parallel BETWEEN 1 AND 10000),
    dial_timeout TEXT,
    reset_timeout TEXT,
    close_timeout TEXT,
    ping_interval TEXT,
    ping_timeout TEXT,
    tcp_user_timeout TEXT,
    probe TEXT,
    probe_interval TEXT,
    probe_timeout TEXT,
    probe_fall INTEGER CHECK (probe_fall BETWEEN 1 AND 1000),
    probe_rise INTEGER CHECK (probe_rise BETWEEN 1 AND 1000),
    circuit_failures INTEGER CHECK (circuit_failures BETWEEN 1 AND 1000000),
    slow_start TEXT
) STRICT;

CREATE TABLE backends (
    name TEXT NOT NULL PRIMARY KEY CHECK (name <> ''),
    service TEXT NOT NULL REFERENCES services (name),
    url TEXT NOT NULL CHECK (url LIKE 'ws://%' OR url LIKE 'wss://%'),
    connections INTEGER CHECK (connections BETWEEN 1 AND 100000),
    warm INTEGER CHECK (warm >= 0),
    weight REAL CHECK (weight BETWEEN 0 AND 1000),
    state TEXT CHECK (state IN ('enabled', 'draining', 'disabled')),
    labels TEXT CHECK (json_valid(labels) AND json_type(labels) = 'object'),
    tls_ca TEXT,
    tls_server_name TEXT,
    tls_insecure_skip_verify TEXT CHECK (tls_insecure_skip_verify IN ('true', 'false')),
    tls_certificate TEXT,
    tls_key TEXT,
    headers TEXT CHECK (json_valid(headers) AND json_type(headers) = 'object')
) STRICT;

-- The version that the configuration has.
CREATE TABLE head (
    only_row INTEGER NOT NULL PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    revision INTEGER NOT NULL
) STRICT;
INSERT INTO head (revision) VALUES (0);

-- Who writes, and why, while a transaction of wsbouncer's does. Otherwise it is empty, and each row that is written is a
-- revision of its own, since SQLite has no name for a transaction.
CREATE TABLE author (
    only_row INTEGER NOT NULL PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    who TEXT NOT NULL,
    why TEXT
) STRICT;

-- Who made which version, when and why.
CREATE TABLE revisions (
    revision INTEGER NOT NULL PRIMARY KEY,
    at TEXT NOT NULL, -- RFC 3339, UTC
    who TEXT NOT NULL,
    why TEXT
) STRICT;

-- What was changed: a row for each field; for an entity that was added or removed, one with an empty field before them.
CREATE TABLE changes (
    id INTEGER NOT NULL PRIMARY KEY,
    revision INTEGER NOT NULL REFERENCES revisions (revision),
    action TEXT NOT NULL CHECK (action IN ('added', 'changed', 'removed')),
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    field TEXT NOT NULL,
    was TEXT,
    became TEXT
) STRICT;
CREATE INDEX changes_by_revision ON changes (revision);
