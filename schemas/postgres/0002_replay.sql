-- SPDX-License-Identifier: Apache-2.0

-- Rows of dead_letter are facts, and never updated. What was done to one is in dead_letter_state.
ALTER TABLE dead_letter
    -- Which messages are alike (error_group); 0: archived before there were fingerprints.
    ADD COLUMN fingerprint  bigint NOT NULL DEFAULT 0,
    -- The replay that sent the task which is dead again, and the dead letter that it sent.
    ADD COLUMN replay_job   text,
    ADD COLUMN replay_of_at timestamptz,
    ADD COLUMN replay_of    bigint;
CREATE INDEX dead_letter_group ON dead_letter (fingerprint, dead_at);
CREATE INDEX dead_letter_replay ON dead_letter (replay_job) WHERE replay_job IS NOT NULL;

-- What the dead letters of one fingerprint have in common. Where there is no task, because its bytes
-- could not be read, type and class are null and the message is the masked detail.
CREATE TABLE error_group (
    fingerprint bigint PRIMARY KEY,
    task_type   text,
    error_class text,
    message     text,
    first_seen  timestamptz NOT NULL DEFAULT now()
);

-- What was done to a dead letter. There is no row until something is: no row is status `dead`.
-- The last four columns are copies, for counting.
CREATE TABLE dead_letter_state (
    dead_at      timestamptz NOT NULL,
    id           bigint NOT NULL,
    status       text NOT NULL CHECK (status IN ('dead', 'replaying', 'replayed', 'discarded')),
    status_at    timestamptz NOT NULL DEFAULT now(),
    job          text,
    replays      integer NOT NULL DEFAULT 0,
    came_back_at timestamptz,
    task_type    text,
    reason       text NOT NULL,
    category     text,
    fingerprint  bigint NOT NULL,
    PRIMARY KEY (dead_at, id)
) PARTITION BY RANGE (dead_at);
CREATE INDEX dead_letter_state_status ON dead_letter_state (status, dead_at);
CREATE INDEX dead_letter_state_job ON dead_letter_state (job) WHERE job IS NOT NULL;

-- Dead letters with their status: what all questions are put to. A question that asks for a status
-- other than `dead` asks for it in `state_status` as well, which is null where nothing was done:
-- then the few rows of dead_letter_state are looked through, and not all dead letters.
CREATE VIEW archive AS
    SELECT d.*, coalesce(s.status, 'dead') AS status, s.status_at, s.job,
           coalesce(s.replays, 0) AS replays, s.came_back_at, s.status AS state_status
      FROM dead_letter AS d
      LEFT JOIN dead_letter_state AS s ON s.dead_at = d.dead_at AND s.id = d.id;

-- The same of a time alone. PostgreSQL does not see by itself that the states are of that time too,
-- and reads all there are.
CREATE FUNCTION archive_between(low timestamptz, high timestamptz) RETURNS SETOF archive
LANGUAGE sql STABLE AS $$
    SELECT d.*, coalesce(s.status, 'dead'), s.status_at, s.job, coalesce(s.replays, 0),
           s.came_back_at, s.status
      FROM dead_letter AS d
      LEFT JOIN dead_letter_state AS s
        ON s.dead_at = d.dead_at AND s.id = d.id AND s.dead_at >= low AND s.dead_at < high
     WHERE d.dead_at >= low AND d.dead_at < high
$$;

-- How many dead letters there are, by the hour. Each change appends what it adds and takes away, so
-- nobody waits for anybody; the truth is the sum of n (and of came_back) over whatever is asked.
-- first_at and last_at span what was once added, and may be wider than what is left of it.
CREATE TABLE dead_letter_count (
    hour        timestamptz NOT NULL,
    task_type   text,
    reason      text NOT NULL,
    category    text,
    fingerprint bigint NOT NULL,
    status      text NOT NULL,
    n           bigint NOT NULL,
    came_back   bigint NOT NULL,
    first_at    timestamptz,
    last_at     timestamptz,
    folded      boolean NOT NULL DEFAULT false
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX dead_letter_count_hour ON dead_letter_count (hour);
CREATE INDEX dead_letter_count_type ON dead_letter_count (task_type, hour);
CREATE INDEX dead_letter_count_group ON dead_letter_count (fingerprint, hour);
CREATE INDEX dead_letter_count_fresh ON dead_letter_count (hour) WHERE NOT folded;

-- The counts as they were, every five minutes.
CREATE TABLE dead_letter_stat (
    at        timestamptz NOT NULL,
    task_type text,
    reason    text NOT NULL,
    category  text,
    dead      bigint NOT NULL,
    replaying bigint NOT NULL,
    replayed  bigint NOT NULL,
    discarded bigint NOT NULL,
    came_back bigint NOT NULL
);
CREATE INDEX dead_letter_stat_at ON dead_letter_stat (at);

-- What was asked for, and how far it is.
CREATE TABLE replay_job (
    job          text PRIMARY KEY,
    created_at   timestamptz NOT NULL DEFAULT now(),
    created_by   text NOT NULL,
    reason       text NOT NULL,
    filter       text NOT NULL,
    options      jsonb NOT NULL DEFAULT '{}',
    wish         text NOT NULL DEFAULT 'run' CHECK (wish IN ('run', 'pause', 'cancel')),
    state        text NOT NULL DEFAULT 'planned' CHECK (state IN
                 ('planned', 'running', 'paused', 'done', 'cancelled', 'stopped', 'failed')),
    rate         double precision,             -- tasks a second; null: no limit
    total        bigint NOT NULL DEFAULT 0,
    marked       bigint NOT NULL DEFAULT 0,    -- items below it are marked in dead_letter_state
    refused      bigint NOT NULL DEFAULT 0,
    detached     boolean NOT NULL DEFAULT false,
    runner       text,
    epoch        bigint NOT NULL DEFAULT 0,    -- of the runner; an older one is refused
    heartbeat_at timestamptz,
    started_at   timestamptz,
    canary_at    timestamptz,                  -- all of its canaries were out by then
    finished_at  timestamptz,
    outcome      text
);
CREATE INDEX replay_job_open ON replay_job (state)
    WHERE state NOT IN ('done', 'cancelled', 'stopped', 'failed');

-- The dead letters of a job, in its order. No foreign key to the job, which is in the same transaction:
-- to look at it once more for each was a fifth of what planning took.
CREATE TABLE replay_item (
    job     text NOT NULL,
    n       bigint NOT NULL,
    dead_at timestamptz NOT NULL,
    id      bigint NOT NULL,
    task_id text,
    size    integer NOT NULL DEFAULT 0,      -- bytes, about
    was     text NOT NULL DEFAULT 'dead',    -- its status before, and again if it is not sent
    was_job text,                            -- the same of its job, and of when it came back
    was_came_back_at timestamptz,
    refused text,   -- why it was not sent; null: it was, or is to be
    edited  jsonb,
    PRIMARY KEY (job, n)
);
CREATE INDEX replay_item_task ON replay_item (job, task_id);

-- How many replays led to the dead letter that came back from one of (at, origin): 1, or more where
-- that one had come back itself. Counts to `most`.
CREATE FUNCTION dead_letter_generation(at timestamptz, origin bigint, most integer)
RETURNS integer LANGUAGE plpgsql STABLE AS $$
DECLARE
    depth integer := 1;
BEGIN
    WHILE depth < most LOOP
        -- Planned each time, for one day: a plan for any would open each day's table at each look.
        EXECUTE 'SELECT replay_of_at, replay_of FROM dead_letter WHERE dead_at = $1 AND id = $2'
           INTO at, origin USING at, origin;
        EXIT WHEN origin IS NULL;
        depth := depth + 1;
    END LOOP;
    RETURN depth;
END
$$;

-- Locks, each for the rest of the transaction, and each taken by a statement of its own, so that the
-- next one sees what those did who had it before.

-- Before rows of dead_letter_state are inserted: the letters that they are of stay meanwhile.
CREATE FUNCTION dead_letter_keep() RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock_shared(hashtext('reprise: letters'))
$$;

-- Before rows of dead_letter are deleted, because of the status that they have: it stays meanwhile.
CREATE FUNCTION dead_letter_take() RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtext('reprise: letters'))
$$;

CREATE FUNCTION dead_letter_hour(at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT date_trunc('hour', at, 'UTC')
$$;

-- Counting: a letter counts as `dead` while it is there, and a row of its state moves it from `dead`
-- to the status that the row says. So what comes and goes first makes no difference to the sum.
CREATE FUNCTION dead_letter_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dead_letter_count
    SELECT dead_letter_hour(dead_at), task_type, reason, category, fingerprint, 'dead',
           count(*), 0, min(dead_at), max(dead_at)
      FROM added GROUP BY 1, 2, 3, 4, 5;
    RETURN NULL;
END
$$;

-- The state of a letter that is deleted goes with it.
CREATE FUNCTION dead_letter_gone() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    low  timestamptz;
    high timestamptz;
BEGIN
    INSERT INTO dead_letter_count
    SELECT dead_letter_hour(dead_at), task_type, reason, category, fingerprint, 'dead', -count(*), 0
      FROM gone GROUP BY 1, 2, 3, 4, 5;
    SELECT min(dead_at), max(dead_at) INTO low, high FROM gone;
    DELETE FROM dead_letter_state AS s USING gone AS g
     WHERE s.dead_at = g.dead_at AND s.id = g.id AND s.dead_at BETWEEN low AND high;
    RETURN NULL;
END
$$;

CREATE FUNCTION dead_letter_state_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dead_letter_count
    SELECT dead_letter_hour(dead_at), task_type, reason, category, fingerprint, c.status, sum(c.n),
           sum(c.came_back), min(dead_at), max(dead_at)
      FROM added AS s, LATERAL (VALUES ('dead', -1, 0),
           (s.status, 1, (s.came_back_at IS NOT NULL)::integer)) AS c (status, n, came_back)
     GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(c.n) <> 0 OR sum(c.came_back) <> 0;
    RETURN NULL;
END
$$;

CREATE FUNCTION dead_letter_state_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dead_letter_count
    SELECT dead_letter_hour(dead_at), task_type, reason, category, fingerprint, c.status, sum(c.n),
           sum(c.came_back), min(dead_at), max(dead_at)
      FROM gone AS s, LATERAL (VALUES ('dead', 1, 0),
           (s.status, -1, -(s.came_back_at IS NOT NULL)::integer)) AS c (status, n, came_back)
     GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(c.n) <> 0 OR sum(c.came_back) <> 0;
    RETURN NULL;
END
$$;

CREATE FUNCTION dead_letter_state_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dead_letter_count
    SELECT dead_letter_hour(dead_at), task_type, reason, category, fingerprint, status, sum(n),
           sum(n * came), min(dead_at), max(dead_at)
      FROM (SELECT *, -1 AS n FROM gone UNION ALL SELECT *, 1 AS n FROM added) AS s,
           LATERAL (VALUES ((s.came_back_at IS NOT NULL)::integer)) AS c (came)
     GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(n) <> 0 OR sum(n * came) <> 0;
    RETURN NULL;
END
$$;

CREATE TRIGGER dead_letter_added AFTER INSERT ON dead_letter
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION dead_letter_added();
CREATE TRIGGER dead_letter_gone AFTER DELETE ON dead_letter
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION dead_letter_gone();
CREATE TRIGGER dead_letter_state_added AFTER INSERT ON dead_letter_state
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION dead_letter_state_added();
CREATE TRIGGER dead_letter_state_gone AFTER DELETE ON dead_letter_state
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION dead_letter_state_gone();
CREATE TRIGGER dead_letter_state_changed AFTER UPDATE ON dead_letter_state
    REFERENCING OLD TABLE AS gone NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION dead_letter_state_changed();

-- Adds up what was appended since the last time, of so many hours at most; how many these were. It
-- takes rows away that it sees and puts their sum in their place, so that it is safe beside
-- everything.
CREATE FUNCTION dead_letter_fold(most integer DEFAULT NULL) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    hours timestamptz[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('reprise: fold')) THEN
        RETURN 0;
    END IF;
    hours := ARRAY(SELECT DISTINCT c.hour FROM dead_letter_count AS c WHERE NOT folded LIMIT most);
    WITH gone AS (
        DELETE FROM dead_letter_count WHERE hour = ANY (hours) RETURNING *
    )
    INSERT INTO dead_letter_count
    SELECT hour, task_type, reason, category, fingerprint, status, sum(n), sum(came_back),
           min(first_at), max(last_at), true
      FROM gone GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(n) <> 0 OR sum(came_back) <> 0;
    RETURN cardinality(hours);
END
$$;

-- Where the clock jumps ahead all of the archive looks old. Statistics are written all the time: where
-- there were some before, and none between one day and two ago, nothing is to go for a day.
CREATE FUNCTION dead_letter_saw_yesterday() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT NOT EXISTS (SELECT FROM dead_letter_stat WHERE at < now() - interval '1 day')
        OR EXISTS (SELECT FROM dead_letter_stat WHERE at < now() - interval '1 day'
                      AND at >= now() - interval '2 days');
$$;

-- Writes the counts down as they are now, once in `every`, whoever asks; false where that was done.
-- Types come from outside: beyond the 1,000 largest rows all are one, `other`. What is older than `keep`
-- goes.
CREATE FUNCTION dead_letter_snapshot(every interval, keep interval) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    this timestamptz := date_bin(every, now(), '2000-01-01 00:00Z');
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('reprise: statistics')) OR
       EXISTS (SELECT FROM dead_letter_stat WHERE at >= this AND at < this + every) THEN
        RETURN false;
    END IF;
    INSERT INTO dead_letter_stat
    WITH s AS (
        SELECT task_type, reason, category,
               coalesce(sum(n) FILTER (WHERE status = 'dead'), 0) AS dead,
               coalesce(sum(n) FILTER (WHERE status = 'replaying'), 0) AS replaying,
               coalesce(sum(n) FILTER (WHERE status = 'replayed'), 0) AS replayed,
               coalesce(sum(n) FILTER (WHERE status = 'discarded'), 0) AS discarded,
               sum(came_back) AS came_back, row_number() OVER (ORDER BY sum(n) DESC) > 1000 AS less
          FROM dead_letter_count GROUP BY 1, 2, 3 HAVING sum(n) <> 0
    )
    SELECT this, CASE WHEN less THEN 'other' ELSE task_type END,
           CASE WHEN less THEN 'other' ELSE reason END, CASE WHEN less THEN 'other' ELSE category END,
           sum(dead), sum(replaying), sum(replayed), sum(discarded), sum(came_back)
      FROM s GROUP BY less, 2, 3, 4;
    DELETE FROM dead_letter_stat WHERE at < now() - keep AND (SELECT dead_letter_saw_yesterday());
    RETURN true;
END
$$;

-- Where that takes longer than it may: a row without counts, of no reason, says that there was a time.
CREATE FUNCTION dead_letter_skip_snapshot(every interval) RETURNS void LANGUAGE sql AS $$
    INSERT INTO dead_letter_stat
    SELECT this, NULL, '', NULL, 0, 0, 0, 0, 0 FROM date_bin(every, now(), '2000-01-01 00:00Z') AS this
     WHERE NOT EXISTS (SELECT FROM dead_letter_stat WHERE at >= this AND at < this + every);
$$;

-- Counts the rows of a day anew, for who has changed them behind the triggers' back (TRUNCATE, a
-- partition written to by its own name). Writers wait meanwhile.
CREATE FUNCTION dead_letter_recount(day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    low  timestamptz := day::timestamp AT TIME ZONE 'UTC';
    high timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
BEGIN
    PERFORM dead_letter_take();
    PERFORM pg_advisory_xact_lock(hashtext('reprise: fold'));
    LOCK TABLE ONLY dead_letter, ONLY dead_letter_state IN SHARE MODE;
    DELETE FROM dead_letter_count WHERE hour >= low AND hour < high;
    INSERT INTO dead_letter_count
    SELECT dead_letter_hour(dead_at), task_type, reason, category, fingerprint, status, count(*),
           count(came_back_at), min(dead_at), max(dead_at), true
      FROM archive_between(low, high) GROUP BY 1, 2, 3, 4, 5, 6;
END
$$;

-- A day has a partition of dead_letter and one of dead_letter_state. One that somebody has dropped is
-- made again, and what it counted is forgotten; one that was detached is not attached again, and
-- until it goes the day has no room.
CREATE OR REPLACE FUNCTION dead_letter_add_day(day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    name   text;
    low    timestamptz := day::timestamp AT TIME ZONE 'UTC';
    high   timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
    made   boolean := false;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('reprise: days'));
    FOREACH parent IN ARRAY ARRAY['dead_letter', 'dead_letter_state'] LOOP
        name := parent || to_char(day, '_YYYYMMDD');
        CONTINUE WHEN to_regclass(name) IS NOT NULL;
        IF parent = 'dead_letter' THEN
            PERFORM pg_advisory_xact_lock(hashtext('reprise: fold'));
            DELETE FROM dead_letter_count AS c WHERE c.hour >= low AND c.hour < high;
        END IF;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', name, parent);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent,
                       name, low, high);
        made := true;
    END LOOP;
    RETURN made;
END
$$;

-- Drops a day and all that is in it, and says so in the audit; the number of rows that went, null
-- where there is no such day. A day with rows that are being replayed stays, and the answer is -1,
-- unless `even_replaying` and no job of the last 7 days has any of them. `expected` is how many rows
-- there should be (they were exported, say): if there are others, the answer is -2 and the day
-- stays. However large the day, readers and writers are locked out for the moment of the drop alone;
-- one who reads for long makes it fail, rather than all others wait behind it.
DROP FUNCTION dead_letter_drop_day(date, text, text);
CREATE FUNCTION dead_letter_drop_day(day date, actor text, reason text,
                                     even_replaying boolean DEFAULT false,
                                     expected bigint DEFAULT NULL, more jsonb DEFAULT '{}')
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    suffix    text := to_char(day, '_YYYYMMDD');
    low       timestamptz := day::timestamp AT TIME ZONE 'UTC';
    high      timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
    n         bigint;
    replaying bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('reprise: days'));
    IF NOT EXISTS (SELECT FROM dead_letter_day AS d WHERE d.day = dead_letter_drop_day.day) THEN
        RETURN NULL;
    END IF;
    PERFORM set_config('lock_timeout', '2s', true);
    PERFORM dead_letter_take();
    PERFORM pg_advisory_xact_lock(hashtext('reprise: fold'));
    LOCK TABLE ONLY dead_letter, ONLY dead_letter_state IN ACCESS EXCLUSIVE MODE;
    SELECT count(*) INTO replaying FROM dead_letter_state AS s
     WHERE s.status = 'replaying' AND s.dead_at >= low AND s.dead_at < high;
    IF replaying > 0 AND (NOT even_replaying OR EXISTS (
           SELECT FROM replay_job AS j WHERE j.created_at > now() - interval '7 days' AND j.job IN (
               SELECT s.job FROM dead_letter_state AS s
                WHERE s.status = 'replaying' AND s.dead_at >= low AND s.dead_at < high))) THEN
        RETURN -1; -- planned while others were given up
    END IF;
    SELECT coalesce(sum(c.n), 0) INTO n FROM dead_letter_count AS c
     WHERE c.hour >= low AND c.hour < high;
    IF n <> expected THEN
        RETURN -2;
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS %I, %I', 'dead_letter' || suffix, 'dead_letter_state' || suffix);
    DELETE FROM dead_letter_count AS c WHERE c.hour >= low AND c.hour < high;
    INSERT INTO audit (actor, action, reason, detail)
    VALUES (actor, 'drop-day', reason, more || jsonb_build_object('day', day, 'rows', n) ||
            CASE WHEN replaying > 0 THEN jsonb_build_object('replaying', replaying)
                 ELSE '{}' END);
    RETURN n;
END
$$;

-- Groups that no dead letter is of any more go after a day, so many a call at most. Who archives waits
-- for the moment in which they are looked at again and deleted: so none of a group goes in while it is
-- taken out.
CREATE FUNCTION error_group_clean(most integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    gone bigint[] := ARRAY(
        SELECT g.fingerprint FROM error_group AS g WHERE g.first_seen < now() - interval '1 day'
           AND NOT EXISTS (SELECT FROM dead_letter_count AS c WHERE c.fingerprint = g.fingerprint)
         LIMIT most);
    n bigint;
BEGIN
    IF gone = '{}' THEN
        RETURN 0;
    END IF;
    PERFORM set_config('lock_timeout', '2s', true);
    LOCK TABLE error_group IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM error_group AS g WHERE g.fingerprint = ANY (gone)
       AND NOT EXISTS (SELECT FROM dead_letter_count AS c WHERE c.fingerprint = g.fingerprint);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$$;

-- The days there are already, and the dead letters in them.
DO $$
DECLARE
    d record;
BEGIN
    FOR d IN SELECT * FROM dead_letter_day LOOP
        EXECUTE format('CREATE TABLE %I PARTITION OF dead_letter_state FOR VALUES FROM (%L) TO (%L)',
                       'dead_letter_state' || to_char(d.day, '_YYYYMMDD'),
                       d.day::timestamp AT TIME ZONE 'UTC',
                       (d.day + 1)::timestamp AT TIME ZONE 'UTC');
        PERFORM dead_letter_recount(d.day);
    END LOOP;
END
$$;
