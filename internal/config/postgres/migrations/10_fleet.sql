-- The ledger of proxies that share this database: which of them has how many places of each server. It is no part of the configuration:
-- it has no history, and nobody who follows the configuration is woken.

-- +goose Up

-- The ledger's head. past are epochs, departed proxies that left (with the sequence numbers of their last reports). revision goes up with each change, and a beat is none. members_tag is another text when members_* has changed.
CREATE TABLE wsbouncer.fleet (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    identity text NOT NULL,
    epoch text NOT NULL,
    past json NOT NULL,
    departed json NOT NULL,
    settled boolean NOT NULL,
    version bigint NOT NULL,
    revision bigint NOT NULL,
    members_tag text NOT NULL
) WITH (fillfactor = 20);
-- The identity is that of the server which makes the tables, as package fleet/postgres tells servers apart. If another server, after a failover or a
-- restart, finds the ledger without an epoch, the first epochs may have been lost with the last commits, so grants wait for a lease time.
INSERT INTO wsbouncer.fleet VALUES (true, to_char(pg_postmaster_start_time() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    '', '[]', '[]', false, 0, 0, '');

CREATE TABLE wsbouncer.fleet_members (
    id text PRIMARY KEY CHECK (id <> ''),
    epoch text NOT NULL,
    about json NOT NULL
);

-- A row for each member, updated once a second. No index but the key's, and room in each page, so that updates stay in it.
CREATE TABLE wsbouncer.fleet_beats (
    id text PRIMARY KEY,
    beats bigint NOT NULL,
    sequence bigint NOT NULL,
    sessions integer NOT NULL,
    seen timestamptz NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 5000, autovacuum_analyze_threshold = 100000);

-- granted is the sum of all places. grants has an array for each grant: proxy, places, cap, holds, needs, wants, waiting, waited, floor, share. Zeros at the end are left out.
CREATE TABLE wsbouncer.fleet_accounts (
    server text PRIMARY KEY,
    version bigint NOT NULL,
    cap integer NOT NULL,
    granted integer NOT NULL,
    grants json NOT NULL
) WITH (fillfactor = 20);

-- The second line of defence: all proxies together have no more places than the server, whatever a program writes. Beyond the cap,
-- which may have been lowered, and which proxies that were taken for dead may have come back to, nobody gets more than it holds already.
-- +goose StatementBegin
CREATE FUNCTION wsbouncer.fleet_check() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    above text;
    before json := '[]';
BEGIN
    IF TG_OP = 'UPDATE' THEN
        before := OLD.grants;
    END IF;
    SELECT g ->> 0 INTO above FROM json_array_elements(NEW.grants) AS g
        LEFT JOIN json_array_elements(before) AS b ON b ->> 0 = g ->> 0
        WHERE (g ->> 1)::integer > greatest((g ->> 3)::integer, (b ->> 1)::integer, 0) LIMIT 1;
    IF FOUND THEN
        RAISE check_violation USING MESSAGE = format('proxy %s would get places of %s, of whose %s places %s would be granted',
            above, NEW.server, NEW.cap, NEW.granted);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER fleet_check AFTER INSERT OR UPDATE ON wsbouncer.fleet_accounts
    FOR EACH ROW WHEN (NEW.granted > NEW.cap) EXECUTE FUNCTION wsbouncer.fleet_check();

-- Somebody has emptied a table while proxies run, or has deleted grants or members. What the ledger has left is not what proxies hold, so it is
-- lost: the next exchange begins an epoch in which nothing is granted before all have said what they hold, and those who have seen more than the
-- version that is left name the others. A store deletes no account that has grants, and members only when it updates the head.
-- +goose StatementBegin
CREATE FUNCTION wsbouncer.fleet_lost() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM wsbouncer.fleet WHERE xmin = pg_current_xact_id()::xid) THEN
        RETURN NULL;
    END IF;
    UPDATE wsbouncer.fleet SET identity = 'lost', version = greatest(version - 1, 0), revision = revision + 1, members_tag = gen_random_uuid()::text;
    DELETE FROM wsbouncer.fleet_beats AS b WHERE NOT EXISTS (SELECT FROM wsbouncer.fleet_members AS m WHERE m.id = b.id);
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER fleet_lost AFTER TRUNCATE ON wsbouncer.fleet_accounts FOR EACH STATEMENT EXECUTE FUNCTION wsbouncer.fleet_lost();
CREATE TRIGGER fleet_lost AFTER TRUNCATE ON wsbouncer.fleet_members FOR EACH STATEMENT EXECUTE FUNCTION wsbouncer.fleet_lost();
CREATE TRIGGER fleet_lost_grants AFTER DELETE ON wsbouncer.fleet_accounts
    FOR EACH ROW WHEN (OLD.grants::text <> '[]') EXECUTE FUNCTION wsbouncer.fleet_lost();
CREATE TRIGGER fleet_lost_members AFTER DELETE ON wsbouncer.fleet_members FOR EACH ROW EXECUTE FUNCTION wsbouncer.fleet_lost();

-- For people.
CREATE VIEW wsbouncer.fleet_proxies AS
    SELECT m.id, m.about ->> 'name' AS name, m.about ->> 'state' AS state, b.sessions, m.about ->> 'version' AS version,
        m.about ->> 'address' AS address, (m.about ->> 'started')::timestamptz AS started, b.seen
    FROM wsbouncer.fleet_members AS m LEFT JOIN wsbouncer.fleet_beats AS b USING (id);

CREATE VIEW wsbouncer.fleet_grants AS
    SELECT a.server, g ->> 0 AS proxy, (g ->> 1)::integer AS places, (g ->> 2)::integer AS cap, (g ->> 3)::integer AS holds,
        coalesce((g ->> 4)::integer, 0) AS needs, coalesce((g ->> 5)::integer, 0) AS wants
    FROM wsbouncer.fleet_accounts AS a, json_array_elements(a.grants) AS g;
