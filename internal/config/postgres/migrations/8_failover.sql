-- What becomes of sessions whose servers die, hang or are drained.

-- +goose Up

ALTER TABLE wsbouncer.services ADD COLUMN failover text CHECK (failover IN ('off', 'replay'));
ALTER TABLE wsbouncer.services ADD COLUMN replay_window text;
ALTER TABLE wsbouncer.services ADD COLUMN stall_timeout text;
ALTER TABLE wsbouncer.services ADD COLUMN canary text;
ALTER TABLE wsbouncer.services ADD COLUMN canary_interval text;
ALTER TABLE wsbouncer.services ADD COLUMN canary_timeout text;
ALTER TABLE wsbouncer.services ADD COLUMN canary_text text;
ALTER TABLE wsbouncer.services ADD COLUMN rebalance boolean;
ALTER TABLE wsbouncer.services ADD COLUMN tell_clients boolean;
