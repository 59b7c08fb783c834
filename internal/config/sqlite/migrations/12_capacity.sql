-- The number of connections may be "auto": as many as the server publishes, and at most connections_max.

-- +goose Up

-- The triggers name columns that go. The program makes them anew.
DROP TRIGGER IF EXISTS backends_added;
DROP TRIGGER IF EXISTS backends_changed;
DROP TRIGGER IF EXISTS backends_removed;

ALTER TABLE backends RENAME COLUMN connections TO old_connections; -- whose values SQLite checks
ALTER TABLE backends ADD COLUMN connections TEXT CHECK (connections = 'auto' OR CAST(connections AS INTEGER) BETWEEN 1 AND 100000);
UPDATE backends SET connections = old_connections;
ALTER TABLE backends DROP COLUMN old_connections;
ALTER TABLE backends ADD COLUMN connections_max INTEGER CHECK (connections_max BETWEEN 1 AND 100000);
