-- What of a client's handshake a service passes on to its backends.

-- +goose Up

ALTER TABLE services ADD COLUMN pass TEXT CHECK (json_valid(pass) AND json_type(pass) = 'array');

-- The triggers name each column.
DROP TRIGGER services_added;
DROP TRIGGER services_changed;
DROP TRIGGER services_removed;

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
        UNION ALL SELECT 'pass', NULL, NEW.pass
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
        OR OLD.pass IS NOT NEW.pass
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
        UNION ALL SELECT 'pass', OLD.pass, NEW.pass
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
        UNION ALL SELECT 'pass', OLD.pass, NULL
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
