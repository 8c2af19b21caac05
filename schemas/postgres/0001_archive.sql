-- SPDX-License-Identifier: Apache-2.0

CREATE SEQUENCE dead_letter_id_seq;

-- One row a dead letter, and all that is needed to understand it and to send it again. The task's
-- columns are null where there is no task, because its bytes could not be read.
CREATE TABLE dead_letter (
    id               bigint NOT NULL DEFAULT nextval('dead_letter_id_seq'),
    dead_at          timestamptz NOT NULL,
    archived_at      timestamptz NOT NULL DEFAULT now(),

    -- The dead letter's own record.
    record_topic     text NOT NULL,
    record_partition integer NOT NULL,
    record_offset    bigint NOT NULL,
    record_key       bytea,

    -- The decision.
    reason           text NOT NULL,
    detail           text,
    category         text,
    policy           text,
    attempts         integer,
    decided_at       timestamptz,

    -- Where the record came from that failed.
    source_topic     text,
    source_partition integer,
    source_offset    bigint,

    -- The FailedTask. Headers and causes are arrays side by side, in the task's order.
    task_id          text,
    task_type        text,
    target           text,
    task_key         bytea,
    payload          bytea,
    header_keys      text[],
    header_values    bytea[],
    attempt          integer,
    error_class      text,
    error_message    text,
    error_category   text,
    cause_classes    text[],
    cause_messages   text[],
    source           text,
    first_failed_at  timestamptz,
    failed_at        timestamptz,

    -- The bytes that could not be decoded.
    raw              bytea,
    -- The columns whose value PostgreSQL cannot hold as it came: bytes that are no text are written
    -- \xHH and a backslash \\, what is over-long is cut, a time outside the years 1 to 9999 is
    -- bounded. Null where nothing was altered.
    altered          text[],
    -- The value of the dead letter's record as it came, where the columns do not say it all: when
    -- something was altered, and when the dead letter itself could not be decoded.
    record           bytea,

    -- dead_at depends on the record alone (but for times that make no sense, and days that were
    -- detached), so that this also refuses a record that is read a second time after its offset was
    -- lost.
    PRIMARY KEY (dead_at, record_topic, record_partition, record_offset)
) PARTITION BY RANGE (dead_at);

ALTER SEQUENCE dead_letter_id_seq OWNED BY dead_letter.id;
CREATE INDEX dead_letter_id ON dead_letter (id);
CREATE INDEX dead_letter_type ON dead_letter (task_type, dead_at);
CREATE INDEX dead_letter_task ON dead_letter (task_id);

-- How far each partition of the dead-letter topic is archived: next_offset is committed together
-- with the rows below it, and is the only truth about it. Each new owner raises the epoch; who
-- comes with an older one is refused.
CREATE TABLE archive_offset (
    topic       text NOT NULL,
    partition   integer NOT NULL,
    epoch       bigint NOT NULL,
    next_offset bigint NOT NULL,
    -- Where the owner last met the log's end with nothing in hand; 0: not yet. No dead letter lies
    -- between, as far as it saw: it tells how far the archive is, and nobody begins to read there.
    seen_end    bigint NOT NULL DEFAULT 0,
    -- The broker's id of the topic, empty where it is not known: a topic that was deleted and
    -- created again begins at 0 again.
    topic_id    text NOT NULL DEFAULT '',
    owner       text NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, partition)
) WITH (fillfactor = 50);

-- Who did what to which dead letters, when, why, and with what result.
CREATE TABLE audit (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT now(),
    actor  text NOT NULL,
    action text NOT NULL,
    reason text,
    detail jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_at ON audit (at);

-- The days there are partitions for; one that somebody is detaching takes no rows any more.
CREATE VIEW dead_letter_day AS
    SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS day, c.relname AS name
      FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'dead_letter'::regclass AND c.relname ~ '^dead_letter_[0-9]{8}$'
       AND NOT i.inhdetachpending;

-- Makes the partition of a day (UTC); false where it is there already. It is made by itself and
-- attached, since CREATE TABLE ... PARTITION OF would lock out all readers and writers.
CREATE FUNCTION dead_letter_add_day(day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    name text := 'dead_letter_' || to_char(day, 'YYYYMMDD');
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('reprise: days'));
    IF EXISTS (SELECT FROM dead_letter_day AS d WHERE d.day = dead_letter_add_day.day) THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE dead_letter INCLUDING ALL)', name);
    EXECUTE format('ALTER TABLE dead_letter ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
                   day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
    RETURN true;
END
$$;

-- Drops a day and all that is in it, and says so in the audit; the number of rows that went, null
-- where there is no such day. A large day is not counted but known from PostgreSQL's own statistics,
-- so that it costs no more than a small one. Readers and writers are locked out for the moment of
-- the drop alone; one who reads for long makes it fail, rather than all others wait behind it.
CREATE FUNCTION dead_letter_drop_day(day date, actor text, reason text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    name  text := 'dead_letter_' || to_char(day, 'YYYYMMDD');
    n     bigint := 0;
    exact boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('reprise: days'));
    IF NOT EXISTS (SELECT FROM dead_letter_day AS d WHERE d.day = dead_letter_drop_day.day) THEN
        RETURN NULL;
    END IF;
    exact := pg_relation_size(name::regclass) < 256 * 1024 * 1024;
    IF NOT exact THEN
        SELECT greatest(c.reltuples, pg_stat_get_live_tuples(c.oid)) INTO n
          FROM pg_class AS c WHERE c.oid = name::regclass;
    END IF;
    IF n <= 0 THEN
        EXECUTE format('SELECT count(*) FROM %I', name) INTO n;
        exact := true;
    END IF;
    PERFORM set_config('lock_timeout', '2s', true);
    EXECUTE format('DROP TABLE %I', name);
    INSERT INTO audit (actor, action, reason, detail)
    VALUES (actor, 'drop-day', reason, jsonb_build_object('day', day, 'rows', n, 'exact', exact));
    RETURN n;
END
$$;
