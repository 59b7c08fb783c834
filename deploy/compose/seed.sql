-- The first service and its backend, for a database without any history: what was changed or removed stays so.
-- wsbouncer's commands do the same: wsbouncer service add echo --path /v1/echo --profile echo, and so on.
SET LOCAL wsbouncer.who = 'compose';
SET LOCAL wsbouncer.why = 'the first service';

CREATE TEMPORARY TABLE first_time ON COMMIT DROP AS
    SELECT WHERE NOT EXISTS (SELECT FROM wsbouncer.revisions);

INSERT INTO wsbouncer.services (name, path, profile)
    SELECT 'echo', '/v1/echo', 'echo' FROM first_time;

-- The name echo stands for all containers of the service: each becomes a member of its own, with 16 places.
INSERT INTO wsbouncer.backends (name, service, url, discover, connections)
    SELECT 'echo', 'echo', 'ws://echo:2700', 'dns', 16 FROM first_time;
