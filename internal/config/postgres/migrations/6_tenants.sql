-- Those who share the proxy, and what each may use.

-- +goose Up

CREATE TABLE wsbouncer.tenants (
    name text PRIMARY KEY CHECK (name <> ''),
    share double precision CHECK (share BETWEEN 0.01 AND 1000),
    guaranteed jsonb CHECK (jsonb_typeof(guaranteed) = 'object'),
    session_limit integer CHECK (session_limit BETWEEN 0 AND 2147483647),
    session_rate text,
    byte_rate text,
    message_rate text,
    max_message text,
    max_session text,
    idle_timeout text
);

CREATE TRIGGER before_change BEFORE INSERT OR UPDATE OR DELETE ON wsbouncer.tenants
    FOR EACH STATEMENT EXECUTE FUNCTION wsbouncer.before_change();
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON wsbouncer.tenants
    FOR EACH ROW EXECUTE FUNCTION wsbouncer.note_change('tenant');
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON wsbouncer.tenants
    FOR EACH STATEMENT EXECUTE FUNCTION wsbouncer.refuse_truncate();
