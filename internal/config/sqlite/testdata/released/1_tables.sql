-- The configuration: a row for each profile, service and backend, whose columns are named after their fields; null is the
-- default. The history fills itself by triggers, whoever writes.

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

-- +goose StatementBegin
CREATE TRIGGER profiles_added AFTER INSERT ON profiles
BEGIN
    UPDATE head SET revision = revision + 1 WHERE NOT EXISTS (SELECT 1 FROM author);
    INSERT OR IGNORE INTO revisions (revision, at, who, why)
        SELECT revision, strftime('%Y-%m-%dT%H:%M:%fZ'), coalesce((SELECT who FROM author), '(SQL)'), (SELECT why FROM author) FROM head;
    INSERT INTO changes (revision, action, kind, name, field, was, became)
    SELECT head.revision, 'added', 'profile', NEW.name, field, was, became FROM head, (
        SELECT '' AS field, NULL AS was, NULL AS became
        UNION ALL SELECT 'yaml', NULL, NEW.yaml
    ) WHERE was IS NOT became OR field = '';
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER profiles_changed AFTER UPDATE ON profiles
    WHEN OLD.name IS NOT NEW.name
        OR OLD.yaml IS NOT NEW.yaml
BEGIN
    SELECT RAISE(ABORT, 'a profile cannot be renamed: add one with the new name and remove the old one') WHERE OLD.name <> NEW.name;
    UPDATE head SET revision = revision + 1 WHERE NOT EXISTS (SELECT 1 FROM author);
    INSERT OR IGNORE INTO revisions (revision, at, who, why)
        SELECT revision, strftime('%Y-%m-%dT%H:%M:%fZ'), coalesce((SELECT who FROM author), '(SQL)'), (SELECT why FROM author) FROM head;
    INSERT INTO changes (revision, action, kind, name, field, was, became)
    SELECT head.revision, 'changed', 'profile', NEW.name, field, was, became FROM head, (
        SELECT 'yaml' AS field, OLD.yaml AS was, NEW.yaml AS became
    ) WHERE was IS NOT became;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER profiles_removed AFTER DELETE ON profiles
BEGIN
    UPDATE head SET revision = revision + 1 WHERE NOT EXISTS (SELECT 1 FROM author);
    INSERT OR IGNORE INTO revisions (revision, at, who, why)
        SELECT revision, strftime('%Y-%m-%dT%H:%M:%fZ'), coalesce((SELECT who FROM author), '(SQL)'), (SELECT why FROM author) FROM head;
    INSERT INTO changes (revision, action, kind, name, field, was, became)
    SELECT head.revision, 'removed', 'profile', OLD.name, field, was, became FROM head, (
        SELECT '' AS field, NULL AS was, NULL AS became
        UNION ALL SELECT 'yaml', OLD.yaml, NULL
    ) WHERE was IS NOT became OR field = '';
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER services_added AFTER INSERT ON services
BEGIN
    UPDATE head SET revision = revision + 1 WHERE NOT EXISTS (SELECT 1 FROM author);
    INSERT OR IGNORE INTO revisions (revision, at, who, why)
        SELECT revision, strftime('%Y-%m-%dT%H:%M:%fZ'), coalesce((SELECT who FROM author), '(SQL)'), (SELECT why FROM author) FROM head;
    INSERT INTO changes (revision, action, kind, name, field, was, became)
    SELECT head.revision, 'added', 'service', NEW.name, field, was, became FROM head, (
        SELECT '' AS field, NULL AS was, NULL AS became
        UNION ALL SELECT 'path', NULL, NEW.path
        UNION ALL SELECT 'host', NULL, NEW.host
        UNION ALL SELECT 'profile', NULL, NEW.profile
        UNION ALL SELECT 'subprotocol', NULL, NEW.subprotocol
        UNION ALL SELECT 'allow_origin', NULL, NEW.allow_origin
        UNION ALL SELECT 'balance', NULL, NEW.balance
        UNION ALL SELECT 'hash_by', NULL, NEW.hash_by
        UNION ALL SELECT 'queue', NULL, NEW.queue
        UNION ALL SELECT 'queue_timeout', NULL, NEW.queue_timeout
        UNION ALL SELECT 'max_message', NULL, NEW.max_message
        UNION ALL SELECT 'idle_timeout', NULL, NEW.idle_timeout
        UNION ALL SELECT 'max_session', NULL, NEW.max_session
        UNION ALL SELECT 'connection_max_age', NULL, NEW.connection_max_age
        UNION ALL SELECT 'connection_max_idle', NULL, NEW.connection_max_idle
        UNION ALL SELECT 'connection_max_sessions', NULL, NEW.connection_max_sessions
        UNION ALL SELECT 'dial_parallel', NULL, NEW.dial_parallel
        UNION ALL SELECT 'dial_timeout', NULL, NEW.dial_timeout
        UNION ALL SELECT 'reset_timeout', NULL, NEW.reset_timeout
        UNION ALL SELECT 'close_timeout', NULL, NEW.close_timeout
        UNION ALL SELECT 'ping_interval', NULL, NEW.ping_interval
        UNION ALL SELECT 'ping_timeout', NULL, NEW.ping_timeout
        UNION ALL SELECT 'tcp_user_timeout', NULL, NEW.tcp_user_timeout
        UNION ALL SELECT 'probe', NULL, NEW.probe
        UNION ALL SELECT 'probe_interval', NULL, NEW.probe_interval
        UNION ALL SELECT 'probe_timeout', NULL, NEW.probe_timeout
        UNION ALL SELECT 'probe_fall', NULL, NEW.probe_fall
        UNION ALL SELECT 'probe_rise', NULL, NEW.probe_rise
        UNION ALL SELECT 'circuit_failures', NULL, NEW.circuit_failures
        UNION ALL SELECT 'slow_start', NULL, NEW.slow_start
    ) WHERE was IS NOT became OR field = '';
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER services_changed AFTER UPDATE ON services
    WHEN OLD.name IS NOT NEW.name
        OR OLD.path IS NOT NEW.path
        OR OLD.host IS NOT NEW.host
        OR OLD.profile IS NOT NEW.profile
        OR OLD.subprotocol IS NOT NEW.subprotocol
        OR OLD.allow_origin IS NOT NEW.allow_origin
        OR OLD.balance IS NOT NEW.balance
        OR OLD.hash_by IS NOT NEW.hash_by
        OR OLD.queue IS NOT NEW.queue
        OR OLD.queue_timeout IS NOT NEW.queue_timeout
        OR OLD.max_message IS NOT NEW.max_message
        OR OLD.idle_timeout IS NOT NEW.idle_timeout
        OR OLD.max_session IS NOT NEW.max_session
        OR OLD.connection_max_age IS NOT NEW.connection_max_age
        OR OLD.connection_max_idle IS NOT NEW.connection_max_idle
        OR OLD.connection_max_sessions IS NOT NEW.connection_max_sessions
        OR OLD.dial_parallel IS NOT NEW.dial_parallel
        OR OLD.dial_timeout IS NOT NEW.dial_timeout
        OR OLD.reset_timeout IS NOT NEW.reset_timeout
        OR OLD.close_timeout IS NOT NEW.close_timeout
        OR OLD.ping_interval IS NOT NEW.ping_interval
        OR OLD.ping_timeout IS NOT NEW.ping_timeout
        OR OLD.tcp_user_timeout IS NOT NEW.tcp_user_timeout
        OR OLD.probe IS NOT NEW.probe
        OR OLD.probe_interval IS NOT NEW.probe_interval
        OR OLD.probe_timeout IS NOT NEW.probe_timeout
        OR OLD.probe_fall IS NOT NEW.probe_fall
        OR OLD.probe_rise IS NOT NEW.probe_rise
        OR OLD.circuit_failures IS NOT NEW.circuit_failures
        OR OLD.slow_start IS NOT NEW.slow_start
BEGIN
    SELECT RAISE(ABORT, 'a service cannot be renamed: add one with the new name and remove the old one') WHERE OLD.name <> NEW.name;
    UPDATE head SET revision = revision + 1 WHERE NOT EXISTS (SELECT 1 FROM author);
    INSERT OR IGNORE INTO revisions (revision, at, who, why)
        SELECT revision, strftime('%Y-%m-%dT%H:%M:%fZ'), coalesce((SELECT who FROM author), '(SQL)'), (SELECT why FROM author) FROM head;
    INSERT INTO changes (revision, action, kind, name, field, was, became)
    SELECT head.revision, 'changed', 'service', NEW.name, field, was, became FROM head, (
        SELECT 'path' AS field, OLD.path AS was, NEW.path AS became
        UNION ALL SELECT 'host', OLD.host, NEW.host
        UNION ALL SELECT 'profile', OLD.profile, NEW.profile
        UNION ALL SELECT 'subprotocol', OLD.subprotocol, NEW.subprotocol
        UNION ALL SELECT 'allow_origin', OLD.allow_origin, NEW.allow_origin
        UNION ALL SELECT 'balance', OLD.balance, NEW.balance
        UNION ALL SELECT 'hash_by', OLD.hash_by, NEW.hash_by
        UNION ALL SELECT 'queue', OLD.queue, NEW.queue
        UNION ALL SELECT 'queue_timeout', OLD.queue_timeout, NEW.queue_timeout
        UNION ALL SELECT 'max_message', OLD.max_message, NEW.max_message
        UNION ALL SELECT 'idle_timeout', OLD.idle_timeout, NEW.idle_timeout
        UNION ALL SELECT 'max_session', OLD.max_session, NEW.max_session
        UNION ALL SELECT 'connection_max_age', OLD.connection_max_age, NEW.connection_max_age
        UNION ALL SELECT 'connection_max_idle', OLD.connection_max_idle, NEW.connection_max_idle
        UNION ALL SELECT 'connection_max_sessions', OLD.connection_max_sessions, NEW.connection_max_sessions
        UNION ALL SELECT 'dial_parallel', OLD.dial_parallel, NEW.dial_parallel
        UNION ALL SELECT 'dial_timeout', OLD.dial_timeout, NEW.dial_timeout
        UNION ALL SELECT 'reset_timeout', OLD.reset_timeout, NEW.reset_timeout
        UNION ALL SELECT 'close_timeout', OLD.close_timeout, NEW.close_timeout
        UNION ALL SELECT 'ping_interval', OLD.ping_interval, NEW.ping_interval
        UNION ALL SELECT 'ping_timeout', OLD.ping_timeout, NEW.ping_timeout
        UNION ALL SELECT 'tcp_user_timeout', OLD.tcp_user_timeout, NEW.tcp_user_timeout
        UNION ALL SELECT 'probe', OLD.probe, NEW.probe
        UNION ALL SELECT 'probe_interval', OLD.probe_interval, NEW.probe_interval
        UNION ALL SELECT 'probe_timeout', OLD.probe_timeout, NEW.probe_timeout
        UNION ALL SELECT 'probe_fall', OLD.probe_fall, NEW.probe_fall
        UNION ALL SELECT 'probe_rise', OLD.probe_rise, NEW.probe_rise
        UNION ALL SELECT 'circuit_failures', OLD.circuit_failures, NEW.circuit_failures
        UNION ALL SELECT 'slow_start', OLD.slow_start, NEW.slow_start
    ) WHERE was IS NOT became;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER services_removed AFTER DELETE ON services
BEGIN
    UPDATE head SET revision = revision + 1 WHERE NOT EXISTS (SELECT 1 FROM author);
    INSERT OR IGNORE INTO revisions (revision, at, who, why)
        SELECT revision, strftime('%Y-%m-%dT%H:%M:%fZ'), coalesce((SELECT who FROM author), '(SQL)'), (SELECT why FROM author) FROM head;
    INSERT INTO changes (revision, action, kind, name, field, was, became)
    SELECT head.revision, 'removed', 'service', OLD.name, field, was, became FROM head, (
        SELECT '' AS field, NULL AS was, NULL AS became
        UNION ALL SELECT 'path', OLD.path, NULL
        UNION ALL SELECT 'host', OLD.host, NULL
        UNION ALL SELECT 'profile', OLD.profile, NULL
        UNION ALL SELECT 'subprotocol', OLD.subprotocol, NULL
        UNION ALL SELECT 'allow_origin', OLD.allow_origin, NULL
        UNION ALL SELECT 'balance', OLD.balance, NULL
        UNION ALL SELECT 'hash_by', OLD.hash_by, NULL
        UNION ALL SELECT 'queue', OLD.queue, NULL
        UNION ALL SELECT 'queue_timeout', OLD.queue_timeout, NULL
        UNION ALL SELECT 'max_message', OLD.max_message, NULL
        UNION ALL SELECT 'idle_timeout', OLD.idle_timeout, NULL
        UNION ALL SELECT 'max_session', OLD.max_session, NULL
        UNION ALL SELECT 'connection_max_age', OLD.connection_max_age, NULL
        UNION ALL SELECT 'connection_max_idle', OLD.connection_max_idle, NULL
        UNION ALL SELECT 'connection_max_sessions', OLD.connection_max_sessions, NULL
        UNION ALL SELECT 'dial_parallel', OLD.dial_parallel, NULL
        UNION ALL SELECT 'dial_timeout', OLD.dial_timeout, NULL
        UNION ALL SELECT 'reset_timeout', OLD.reset_timeout, NULL
        UNION ALL SELECT 'close_timeout', OLD.close_timeout, NULL
        UNION ALL SELECT 'ping_interval', OLD.ping_interval, NULL
        UNION ALL SELECT 'ping_timeout', OLD.ping_timeout, NULL
        UNION ALL SELECT 'tcp_user_timeout', OLD.tcp_user_timeout, NULL
        UNION ALL SELECT 'probe', OLD.probe, NULL
        UNION ALL SELECT 'probe_interval', OLD.probe_interval, NULL
        UNION ALL SELECT 'probe_timeout', OLD.probe_timeout, NULL
        UNION ALL SELECT 'probe_fall', OLD.probe_fall, NULL
        UNION ALL SELECT 'probe_rise', OLD.probe_rise, NULL
        UNION ALL SELECT 'circuit_failures', OLD.circuit_failures, NULL
        UNION ALL SELECT 'slow_start', OLD.slow_start, NULL
    ) WHERE was IS NOT became OR field = '';
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER backends_added AFTER INSERT ON backends
BEGIN
    UPDATE head SET revision = revision + 1 WHERE NOT EXISTS (SELECT 1 FROM author);
    INSERT OR IGNORE INTO revisions (revision, at, who, why)
        SELECT revision, strftime('%Y-%m-%dT%H:%M:%fZ'), coalesce((SELECT who FROM author), '(SQL)'), (SELECT why FROM author) FROM head;
    INSERT INTO changes (revision, action, kind, name, field, was, became)
    SELECT head.revision, 'added', 'backend', NEW.name, field, was, became FROM head, (
        SELECT '' AS field, NULL AS was, NULL AS became
        UNION ALL SELECT 'service', NULL, NEW.service
        UNION ALL SELECT 'url', NULL, NEW.url
        UNION ALL SELECT 'connections', NULL, NEW.connections
        UNION ALL SELECT 'warm', NULL, NEW.warm
        UNION ALL SELECT 'weight', NULL, NEW.weight
        UNION ALL SELECT 'state', NULL, NEW.state
        UNION ALL SELECT 'labels', NULL, NEW.labels
        UNION ALL SELECT 'tls_ca', NULL, NEW.tls_ca
        UNION ALL SELECT 'tls_server_name', NULL, NEW.tls_server_name
        UNION ALL SELECT 'tls_insecure_skip_verify', NULL, NEW.tls_insecure_skip_verify
        UNION ALL SELECT 'tls_certificate', NULL, NEW.tls_certificate
        UNION ALL SELECT 'tls_key', NULL, NEW.tls_key
        UNION ALL SELECT 'headers', NULL, NEW.headers
    ) WHERE was IS NOT became OR field = '';
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER backends_changed AFTER UPDATE ON backends
    WHEN OLD.name IS NOT NEW.name
        OR OLD.service IS NOT NEW.service
        OR OLD.url IS NOT NEW.url
        OR OLD.connections IS NOT NEW.connections
        OR OLD.warm IS NOT NEW.warm
        OR OLD.weight IS NOT NEW.weight
        OR OLD.state IS NOT NEW.state
        OR OLD.labels IS NOT NEW.labels
        OR OLD.tls_ca IS NOT NEW.tls_ca
        OR OLD.tls_server_name IS NOT NEW.tls_server_name
        OR OLD.tls_insecure_skip_verify IS NOT NEW.tls_insecure_skip_verify
        OR OLD.tls_certificate IS NOT NEW.tls_certificate
        OR OLD.tls_key IS NOT NEW.tls_key
        OR OLD.headers IS NOT NEW.headers
BEGIN
    SELECT RAISE(ABORT, 'a backend cannot be renamed: add one with the new name and remove the old one') WHERE OLD.name <> NEW.name;
    UPDATE head SET revision = revision + 1 WHERE NOT EXISTS (SELECT 1 FROM author);
    INSERT OR IGNORE INTO revisions (revision, at, who, why)
        SELECT revision, strftime('%Y-%m-%dT%H:%M:%fZ'), coalesce((SELECT who FROM author), '(SQL)'), (SELECT why FROM author) FROM head;
    INSERT INTO changes (revision, action, kind, name, field, was, became)
    SELECT head.revision, 'changed', 'backend', NEW.name, field, was, became FROM head, (
        SELECT 'service' AS field, OLD.service AS was, NEW.service AS became
        UNION ALL SELECT 'url', OLD.url, NEW.url
        UNION ALL SELECT 'connections', OLD.connections, NEW.connections
        UNION ALL SELECT 'warm', OLD.warm, NEW.warm
        UNION ALL SELECT 'weight', OLD.weight, NEW.weight
        UNION ALL SELECT 'state', OLD.state, NEW.state
        UNION ALL SELECT 'labels', OLD.labels, NEW.labels
        UNION ALL SELECT 'tls_ca', OLD.tls_ca, NEW.tls_ca
        UNION ALL SELECT 'tls_server_name', OLD.tls_server_name, NEW.tls_server_name
        UNION ALL SELECT 'tls_insecure_skip_verify', OLD.tls_insecure_skip_verify, NEW.tls_insecure_skip_verify
        UNION ALL SELECT 'tls_certificate', OLD.tls_certificate, NEW.tls_certificate
        UNION ALL SELECT 'tls_key', OLD.tls_key, NEW.tls_key
        UNION ALL SELECT 'headers', OLD.headers, NEW.headers
    ) WHERE was IS NOT became;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER backends_removed AFTER DELETE ON backends
BEGIN
    UPDATE head SET revision = revision + 1 WHERE NOT EXISTS (SELECT 1 FROM author);
    INSERT OR IGNORE INTO revisions (revision, at, who, why)
        SELECT revision, strftime('%Y-%m-%dT%H:%M:%fZ'), coalesce((SELECT who FROM author), '(SQL)'), (SELECT why FROM author) FROM head;
    INSERT INTO changes (revision, action, kind, name, field, was, became)
    SELECT head.revision, 'removed', 'backend', OLD.name, field, was, became FROM head, (
        SELECT '' AS field, NULL AS was, NULL AS became
        UNION ALL SELECT 'service', OLD.service, NULL
        UNION ALL SELECT 'url', OLD.url, NULL
        UNION ALL SELECT 'connections', OLD.connections, NULL
        UNION ALL SELECT 'warm', OLD.warm, NULL
        UNION ALL SELECT 'weight', OLD.weight, NULL
        UNION ALL SELECT 'state', OLD.state, NULL
        UNION ALL SELECT 'labels', OLD.labels, NULL
        UNION ALL SELECT 'tls_ca', OLD.tls_ca, NULL
        UNION ALL SELECT 'tls_server_name', OLD.tls_server_name, NULL
        UNION ALL SELECT 'tls_insecure_skip_verify', OLD.tls_insecure_skip_verify, NULL
        UNION ALL SELECT 'tls_certificate', OLD.tls_certificate, NULL
        UNION ALL SELECT 'tls_key', OLD.tls_key, NULL
        UNION ALL SELECT 'headers', OLD.headers, NULL
    ) WHERE was IS NOT became OR field = '';
END;
-- +goose StatementEnd
