-- The configuration: a row for each profile, service and backend, whose columns are named after their fields; null is the
-- default. The history fills itself by triggers, whoever writes.

-- +goose Up

CREATE TABLE wsbouncer.profiles (
    name text PRIMARY KEY CHECK (name <> ''),
    yaml text NOT NULL
);

CREATE TABLE wsbouncer.services (
    name text PRIMARY KEY CHECK (name <> ''),
    path text CHECK (path LIKE '/%'),
    host text,
    profile text,
    subprotocol text,
    allow_origin jsonb CHECK (jsonb_typeof(allow_origin) = 'array'),
    balance text CHECK (balance IN ('least-loaded', 'round-robin', 'random-two', 'hash')),
    hash_by text,
    queue integer CHECK (queue BETWEEN 0 AND 1000000),
    queue_timeout text,
    max_message text,
    idle_timeout text,
    max_session text,
    connection_max_age text,
    connection_max_idle text,
    connection_max_sessions integer CHECK (connection_max_sessions BETWEEN 0 AND 2147483647),
    dial_parallel integer CHECK (dial_parallel BETWEEN 1 AND 10000),
    dial_timeout text,
    reset_timeout text,
    close_timeout text,
    ping_interval text,
    ping_timeout text,
    tcp_user_timeout text,
    probe text,
    probe_interval text,
    probe_timeout text,
    probe_fall integer CHECK (probe_fall BETWEEN 1 AND 1000),
    probe_rise integer CHECK (probe_rise BETWEEN 1 AND 1000),
    circuit_failures integer CHECK (circuit_failures BETWEEN 1 AND 1000000),
    slow_start text
);

CREATE TABLE wsbouncer.backends (
    name text PRIMARY KEY CHECK (name <> ''),
    service text NOT NULL REFERENCES wsbouncer.services (name),
    url text NOT NULL CHECK (url LIKE 'ws://%' OR url LIKE 'wss://%'),
    connections integer CHECK (connections BETWEEN 1 AND 100000),
    warm integer CHECK (warm >= 0),
    weight double precision CHECK (weight BETWEEN 0 AND 1000),
    state text CHECK (state IN ('enabled', 'draining', 'disabled')),
    labels jsonb CHECK (jsonb_typeof(labels) = 'object'),
    tls_ca text,
    tls_server_name text,
    tls_insecure_skip_verify boolean,
    tls_certificate text,
    tls_key text,
    headers jsonb CHECK (jsonb_typeof(headers) = 'object')
);

-- The version that the configuration has, and the transaction that made it.
CREATE TABLE wsbouncer.head (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    revision bigint NOT NULL,
    transaction xid8
);
INSERT INTO wsbouncer.head (revision) VALUES (0);

-- Who made which version, when and why.
CREATE TABLE wsbouncer.revisions (
    revision bigint PRIMARY KEY,
    at timestamptz NOT NULL,
    who text NOT NULL,
    why text
);

-- What was changed: a row for each field; for an entity that was added or removed, one with an empty field before them.
CREATE TABLE wsbouncer.changes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    revision bigint NOT NULL REFERENCES wsbouncer.revisions (revision),
    action text NOT NULL CHECK (action IN ('added', 'changed', 'removed')),
    kind text NOT NULL,
    name text NOT NULL,
    field text NOT NULL,
    was text,
    became text
);
CREATE INDEX changes_by_revision ON wsbouncer.changes (revision);

-- Writers come one after the other. The lock is taken before any row's, so that two of them do not wait for one another. This
-- function and the next one run as their owner, so that writers need no rights on head or on the history.
-- +goose StatementBegin
CREATE FUNCTION wsbouncer.before_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM wsbouncer.head FOR UPDATE;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- All that one transaction changes is one revision. Who makes it is the session's user, unless the transaction says so:
-- SET LOCAL wsbouncer.who = 'alice'; and why: SET LOCAL wsbouncer.why = 'new model'.
-- +goose StatementBegin
CREATE FUNCTION wsbouncer.note_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number bigint;
    kind text := TG_ARGV[0];
    before jsonb := CASE WHEN TG_OP = 'INSERT' THEN '{}' ELSE to_jsonb(OLD) END;
    after jsonb := CASE WHEN TG_OP = 'DELETE' THEN '{}' ELSE to_jsonb(NEW) END;
    subject text := coalesce(after ->> 'name', before ->> 'name');
    deed text := CASE TG_OP WHEN 'INSERT' THEN 'added' WHEN 'UPDATE' THEN 'changed' ELSE 'removed' END;
BEGIN
    IF before = after THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND before ->> 'name' <> subject THEN
        RAISE EXCEPTION 'a % cannot be renamed: add one with the new name and remove the old one', kind;
    END IF;
    UPDATE wsbouncer.head SET revision = revision + 1, transaction = pg_current_xact_id()
        WHERE transaction IS DISTINCT FROM pg_current_xact_id();
    IF FOUND THEN
        INSERT INTO wsbouncer.revisions (revision, at, who, why)
            SELECT revision, clock_timestamp(), coalesce(nullif(current_setting('wsbouncer.who', true), ''), session_user),
                nullif(current_setting('wsbouncer.why', true), '') FROM wsbouncer.head;
    END IF;
    SELECT revision INTO number FROM wsbouncer.head;
    PERFORM pg_notify('wsbouncer', number::text); -- the same text is sent once for each transaction
    IF TG_OP <> 'UPDATE' THEN
        INSERT INTO wsbouncer.changes (revision, action, kind, name, field) VALUES (number, deed, kind, subject, '');
    END IF;
    INSERT INTO wsbouncer.changes (revision, action, kind, name, field, was, became)
        SELECT number, deed, kind, subject, field, b.value, a.value
        FROM jsonb_each_text(before) AS b (field, value) FULL JOIN jsonb_each_text(after) AS a (field, value) USING (field)
        WHERE field <> 'name' AND b.value IS DISTINCT FROM a.value
        ORDER BY field;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION wsbouncer.refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'TRUNCATE % would leave no history; use DELETE', TG_TABLE_NAME;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER before_change BEFORE INSERT OR UPDATE OR DELETE ON wsbouncer.profiles
    FOR EACH STATEMENT EXECUTE FUNCTION wsbouncer.before_change();
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON wsbouncer.profiles
    FOR EACH ROW EXECUTE FUNCTION wsbouncer.note_change('profile');
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON wsbouncer.profiles
    FOR EACH STATEMENT EXECUTE FUNCTION wsbouncer.refuse_truncate();

CREATE TRIGGER before_change BEFORE INSERT OR UPDATE OR DELETE ON wsbouncer.services
    FOR EACH STATEMENT EXECUTE FUNCTION wsbouncer.before_change();
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON wsbouncer.services
    FOR EACH ROW EXECUTE FUNCTION wsbouncer.note_change('service');
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON wsbouncer.services
    FOR EACH STATEMENT EXECUTE FUNCTION wsbouncer.refuse_truncate();

CREATE TRIGGER before_change BEFORE INSERT OR UPDATE OR DELETE ON wsbouncer.backends
    FOR EACH STATEMENT EXECUTE FUNCTION wsbouncer.before_change();
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON wsbouncer.backends
    FOR EACH ROW EXECUTE FUNCTION wsbouncer.note_change('backend');
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON wsbouncer.backends
    FOR EACH STATEMENT EXECUTE FUNCTION wsbouncer.refuse_truncate();
