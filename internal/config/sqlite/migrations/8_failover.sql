-- What becomes of sessions whose servers die, hang or are drained.

-- +goose Up

ALTER TABLE services ADD COLUMN failover TEXT CHECK (failover IN ('off', 'replay'));
ALTER TABLE services ADD COLUMN replay_window TEXT;
ALTER TABLE services ADD COLUMN stall_timeout TEXT;
ALTER TABLE services ADD COLUMN canary TEXT;
ALTER TABLE services ADD COLUMN canary_interval TEXT;
ALTER TABLE services ADD COLUMN canary_timeout TEXT;
ALTER TABLE services ADD COLUMN canary_text TEXT;
ALTER TABLE services ADD COLUMN rebalance TEXT CHECK (rebalance IN ('true', 'false'));
ALTER TABLE services ADD COLUMN tell_clients TEXT CHECK (tell_clients IN ('true', 'false'));
