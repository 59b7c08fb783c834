-- Fields that no longer exist go, and what identifies clients becomes a part of the balance. The history keeps the old values.

-- +goose Up

-- The triggers name columns that go. The program makes them anew.
DROP TRIGGER IF EXISTS services_added;
DROP TRIGGER IF EXISTS services_changed;
DROP TRIGGER IF EXISTS services_removed;
DROP TRIGGER IF EXISTS tenants_added;
DROP TRIGGER IF EXISTS tenants_changed;
DROP TRIGGER IF EXISTS tenants_removed;

CREATE TEMPORARY TABLE gone AS
    SELECT 'service' AS kind, name, 'balance' AS field, balance AS was, 'hash:' || hash_by AS became FROM services WHERE balance = 'hash' AND hash_by IS NOT NULL
    UNION ALL SELECT 'service', name, 'hash_by', hash_by, NULL FROM services WHERE hash_by IS NOT NULL
    UNION ALL SELECT 'service', name, 'dial_parallel', CAST(dial_parallel AS TEXT), NULL FROM services WHERE dial_parallel IS NOT NULL
    UNION ALL SELECT 'service', name, 'reset_timeout', reset_timeout, NULL FROM services WHERE reset_timeout IS NOT NULL
    UNION ALL SELECT 'service', name, 'tcp_user_timeout', tcp_user_timeout, NULL FROM services WHERE tcp_user_timeout IS NOT NULL
    UNION ALL SELECT 'service', name, 'message_rate', message_rate, NULL FROM services WHERE message_rate IS NOT NULL
    UNION ALL SELECT 'tenant', name, 'message_rate', message_rate, NULL FROM tenants WHERE message_rate IS NOT NULL;
UPDATE head SET revision = revision + 1 WHERE EXISTS (SELECT 1 FROM gone);
INSERT INTO revisions (revision, at, who, why)
    SELECT revision, strftime('%Y-%m-%dT%H:%M:%fZ'), 'wsbouncer migrate', 'fields that no longer exist' FROM head WHERE EXISTS (SELECT 1 FROM gone);
INSERT INTO changes (revision, action, kind, name, field, was, became)
    SELECT revision, 'changed', kind, name, field, was, became FROM head, gone;
DROP TABLE gone;

ALTER TABLE services RENAME COLUMN balance TO old_balance; -- whose values SQLite checks
ALTER TABLE services ADD COLUMN balance TEXT
    CHECK (balance IN ('least-loaded', 'round-robin', 'random-two', 'hash') OR balance LIKE 'hash:%');
UPDATE services SET balance = CASE WHEN old_balance = 'hash' THEN concat_ws(':', old_balance, hash_by) ELSE old_balance END;
ALTER TABLE services DROP COLUMN old_balance;
ALTER TABLE services DROP COLUMN hash_by;
ALTER TABLE services DROP COLUMN dial_parallel;
ALTER TABLE services DROP COLUMN reset_timeout;
ALTER TABLE services DROP COLUMN tcp_user_timeout;
ALTER TABLE services DROP COLUMN message_rate;
ALTER TABLE tenants DROP COLUMN message_rate;
