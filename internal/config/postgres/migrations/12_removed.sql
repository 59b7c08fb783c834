-- Fields that no longer exist go, and what identifies clients becomes a part of the balance. The history keeps the old values.

-- +goose Up

SELECT set_config('wsbouncer.who', 'wsbouncer migrate', true), set_config('wsbouncer.why', 'fields that no longer exist', true);

ALTER TABLE wsbouncer.services DROP CONSTRAINT services_balance_check;
UPDATE wsbouncer.services SET
    balance = CASE WHEN balance = 'hash' THEN concat_ws(':', balance, hash_by) ELSE balance END,
    hash_by = NULL, dial_parallel = NULL, reset_timeout = NULL, tcp_user_timeout = NULL, message_rate = NULL
    WHERE num_nonnulls(hash_by, dial_parallel, reset_timeout, tcp_user_timeout, message_rate) > 0;
UPDATE wsbouncer.tenants SET message_rate = NULL WHERE message_rate IS NOT NULL;

ALTER TABLE wsbouncer.services ADD CONSTRAINT services_balance_check
    CHECK (balance IN ('least-loaded', 'round-robin', 'random-two', 'hash') OR balance LIKE 'hash:%');
ALTER TABLE wsbouncer.services DROP COLUMN hash_by, DROP COLUMN dial_parallel, DROP COLUMN reset_timeout, DROP COLUMN tcp_user_timeout,
    DROP COLUMN message_rate;
ALTER TABLE wsbouncer.tenants DROP COLUMN message_rate;
