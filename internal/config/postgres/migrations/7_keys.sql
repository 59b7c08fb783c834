-- API keys: their hashes, and what each may use.

-- +goose Up

CREATE TABLE wsbouncer.keys (
    name text PRIMARY KEY CHECK (name <> ''),
    tenant text,
    hash text NOT NULL CHECK (hash LIKE 'sha256:%'),
    expires text,
    services jsonb CHECK (jsonb_typeof(services) = 'array'),
    session_limit integer CHECK (session_limit BETWEEN 0 AND 2147483647),
    session_rate text,
    byte_rate text,
    message_rate text,
    max_message text,
    max_session text,
    idle_timeout text
);

CREATE TRIGGER before_change BEFORE INSERT OR UPDATE OR DELETE ON wsbouncer.keys
    FOR EACH STATEMENT EXECUTE FUNCTION wsbouncer.before_change();
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON wsbouncer.keys
    FOR EACH ROW EXECUTE FUNCTION wsbouncer.note_change('key');
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON wsbouncer.keys
    FOR EACH STATEMENT EXECUTE FUNCTION wsbouncer.refuse_truncate();
