# SPDX-License-Identifier: Apache-2.0
"""Tasks that fail in known ways, their handlers, and all that is to be read of them at the end."""

import time

import contract
import psycopg
from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from history import COUNTED, Delivery, Event, History, Letter, Plan, succeeds
from pipeline import header, now_ms, partitions_of
from psycopg.rows import dict_row

SMALL_MAX = 3000  # bytes that the topic `small` takes
SILENCE_S = 40  # more than any delay, or what a rebalance or a transaction's end takes
DEADLINE_MS = 2000  # of the one policy that has one
QUIET_S = 8  # more than any delay below: what was sent twice by mistake may wait for one of its own
LARGE = 100_000  # bytes of an event of which there are no repeats
LATE_S = 6  # after an event comes its repeat at the latest, where somebody else may have its partition
FRAMINGS = [contract.single_object, contract.single_object, contract.as_json, contract.bare]
POLICIES = {
    "flaky": {
        "max_attempts": 6,
        "backoff": {"uniform": {"min": "100ms", "max": "4s"}},
        "jitter": "0%",
    },
    "brisk": {
        "max_attempts": 6,
        "backoff": {"uniform": {"min": "50ms", "max": "1500ms"}},
        "jitter": "0%",
    },
    "direct": {"max_attempts": 6, "backoff": "none"},
    "lapping": {"max_attempts": 3, "backoff": {"fixed": "7s"}, "jitter": "0%"},
    "doomed": {"max_attempts": 3, "backoff": {"fixed": "400ms"}, "jitter": "0%"},
    "bulky": {"max_attempts": 3, "backoff": {"fixed": "5500ms"}, "jitter": "0%"},
    "soon": {"max_attempts": 6, "backoff": {"fixed": "200ms"}, "jitter": "0%"},
    "hurried": {"deadline": f"{DEADLINE_MS}ms", "backoff": {"fixed": "700ms"}, "jitter": "0%"},
}


LONGEST = {"flaky": 4000, "brisk": 1500}  # ms, where it is not the least


def policies(pipeline):
    """With those that name a topic."""
    rescue = {"max_attempts": 2, "backoff": {"fixed": "300ms"}, "jitter": "0%"}
    return POLICIES | {"rescued": rescue | {"fallback": pipeline.target("rescue")}}


# type: (share of the tasks, least delay, target, how it ends)
KINDS = {
    "flaky": (30, 100, "handler", None),
    "brisk": (10, 50, "handler", None),
    "direct": (12, 0, "handler", None),
    "lapping": (8, 7000, "handler", None),
    "soon": (10, 200, "handler", None),
    "doomed": (10, 400, "handler", "EXHAUSTED"),
    "persistent": (5, 0, "handler", "NON_RETRYABLE"),
    "nowhere": (5, 0, "nowhere", "NO_TARGET"),
    "large": (3, 200, "small", "OVERSIZED"),
    "large-direct": (3, 0, "small", "OVERSIZED"),
    "garbage": (4, 0, None, "UNDECODABLE"),
    "bulky": (1, 5500, "handler", None),
    "hurried": (5, 700, "handler", "DEADLINE_EXCEEDED"),
}
# Those that want `policies`: their last try is the fallback topic's.
RESCUED = {
    "rescued": (5, 300, "handler", None),
    "beyond-rescue": (3, 300, "handler", "EXHAUSTED"),
}
TYPES = {
    "persistent": "flaky", "nowhere": "soon", "large": "soon", "large-direct": "direct",
    "beyond-rescue": "rescued",
}  # fmt: skip
ATTEMPTS = {"EXHAUSTED": 3, "UNDECODABLE": 0, "DEADLINE_EXCEEDED": None}

# Sees what no look at the end would: that a partition's offset in the archive went back for a while.
WATCH = """
create table went_back (partition integer);
create function note_went_back() returns trigger language plpgsql as $$
begin
    if new.next_offset < old.next_offset then
        insert into went_back values (new.partition);
    end if;
    return null;
end
$$;
create trigger note_went_back after update on archive_offset for each row execute function note_went_back();
"""
COUNT_KEY = ("hour", *COUNTED)
COUNTS = f"""
select {", ".join(COUNT_KEY)}, sum(n)::bigint as n, sum(came_back)::bigint as came_back
  from dead_letter_count group by {", ".join(COUNT_KEY)} having sum(n) <> 0 or sum(came_back) <> 0
"""


GROUPLESS = """
select distinct fingerprint from dead_letter
 where task_id is not null and not exists (select from error_group as g where g.fingerprint = dead_letter.fingerprint)
"""


def no_whole_second():
    """A late repeat of an event with a whole second may count as another failure."""
    return now_ms() | 1


class Load:
    """One thread: call `step` again and again. Every random choice comes from `rng`."""

    def __init__(self, pipeline, rng, kinds=KINDS, repeats=0.05):
        self.pipeline, self.rng, self.repeats = pipeline, rng, repeats
        self.kinds, self.weights = list(kinds), [kind[0] for kind in kinds.values()]
        with psycopg.connect(pipeline.dsn) as connection:
            connection.execute(WATCH)
        pipeline.create_target("handler", partitions=4)
        pipeline.create_target("small", partitions=2, max_message_bytes=SMALL_MAX)
        pipeline.create_target("rescue", partitions=2)
        names = ("handler", "small", "rescue")
        self.readers = [pipeline.reader(pipeline.target(name)) for name in names]
        self.tiers = {}  # a reader of each that ever was
        self.watch_tiers()
        self.plans, self.tasks, self.open = {}, {}, set()
        self.later = []  # repeats that come later: (when, value, key)
        self.executed = set()  # what handlers dedupe on
        self.ahead, self.set_back, self.came = [], [], time.monotonic()
        self.calm_ms = float("inf")
        self.revived = set()  # (task id, replay job) of what succeeded at last

    def watch_tiers(self):
        """Reads what lies in those that there are by now, as far as nobody trims it before."""
        for tier in set(self.pipeline.config["tiers"]) - self.tiers.keys():
            self.tiers[tier] = self.pipeline.reader(f"{self.pipeline.prefix}retry-{tier}")

    def emit(self, kind=None, key=None, bulk=30_000):
        """A task's first failure. Kind and key are drawn where they are not said."""
        kind = kind or self.rng.choices(self.kinds, self.weights)[0]
        number = len(self.plans)
        task_id = f"{kind}-{number}"
        _, delay, target, reason = (KINDS | RESCUED)[kind]
        if key is None and self.rng.random() < 0.5:
            key = f"key-{number % 40}".encode() if number % 40 else b""
        if kind == "garbage":
            raw = b"\xc3\x01" + self.rng.randbytes(20) + task_id.encode()
            self.plans[raw] = Plan(raw, None, None, None, [], reason=reason, attempts=0)
            self.open.add(raw)
            self.pipeline.send(raw, key)
            return raw
        size = 2 * SMALL_MAX if target == "small" else self.rng.randrange(0, 400)
        if kind == "bulky":
            size = bulk
        payload = None if 0 < size < 10 else self.rng.randbytes(size)
        headers = [("traceparent", self.rng.randbytes(8).hex().encode()), ("n", None), ("n", b"")]
        plan = Plan(
            task_id, self.pipeline.target(target), key, payload,
            headers[: self.rng.randrange(4)], delay,
            None if reason else self.rng.randint(2, 4 if kind == "flaky" else 3),
            None, reason, ATTEMPTS.get(reason, 1), TYPES.get(kind, kind),
            "INVALID" if kind == "persistent" else "UNKNOWN",
        )  # fmt: skip
        plan.max_delay_ms = LONGEST.get(plan.policy, delay)
        if reason == "DEADLINE_EXCEEDED":
            plan.deadline_ms = DEADLINE_MS
        if reason in ("EXHAUSTED", "NON_RETRYABLE"):
            plan.revives_at = plan.attempts + self.rng.choice([1, 1, 2, 99])
        if plan.policy == "rescued":
            plan.rescue = self.pipeline.target("rescue")
            plan.rescued_at = 3
        self.plans[task_id] = plan
        self.open.add(task_id)
        self.tasks[task_id] = {
            "task_id": task_id,
            "task_type": TYPES.get(kind, kind),
            "target": plan.target,
            "key": key,
            "payload": plan.payload,
            "headers": [{"key": name, "value": value} for name, value in headers[: len(plan.headers)]],
            "attempt": 1,
            "error": {
                "class": "Oops", "message": "planned", "causes": [],
                "category": "INVALID" if kind == "persistent" else None,
            },
            "source": "tests",
            "first_failed_at": None,
            "failed_at": no_whole_second(),
        }  # fmt: skip
        self.send(self.tasks[task_id])
        return task_id

    def send(self, task):
        """Now and then twice, as a producer does that was not sure, at once or later; in any framing."""
        value = self.rng.choice(FRAMINGS)(task)
        # This client draws a partition where the key is empty, and a repeat is only known where the first one went.
        key = task["key"] or task["task_id"].encode()
        self.pipeline.send(value, key)
        # Beyond so many bytes a router that takes a partition over does not look for repeats.
        if self.rng.random() < self.repeats and len(value) < LARGE:
            wait = self.rng.choice([0, self.rng.uniform(0, LATE_S)])
            self.later.append((time.monotonic() + wait, value, key))
        self.repeat()

    def repeat(self, until=None):
        """What is due, or all that is pending."""
        now = time.monotonic() if until is None else until
        for _, value, key in [repeat for repeat in self.later if repeat[0] <= now]:
            self.pipeline.send(value, key)
        self.later = [repeat for repeat in self.later if repeat[0] > now]

    def handle(self, seconds=0.02):
        """What came is executed, once, and fails as planned."""
        self.repeat()
        for reader in list(self.tiers.values()):
            reader.poll(0)
        for reader in self.readers:
            for record in reader.poll(seconds / len(self.readers)):
                self.came = time.monotonic()
                task_id, attempt = header(record, "reprise-task-id"), header(record, "reprise-attempt")
                plan = self.plans.get(task_id)
                if plan is None or attempt is None:
                    continue  # the checker will say so
                replay = header(record, "reprise-replay-id")
                if (task_id, replay, attempt) in self.executed:
                    continue
                self.executed.add((task_id, replay, attempt))
                if succeeds(plan, replay, int(attempt)):
                    self.open.discard(task_id)
                    self.revived.add((task_id, replay))
                    continue
                headers = [{"key": key, "value": value} for key, value in record.headers]
                self.send(
                    self.tasks[task_id]
                    | {"attempt": int(attempt), "headers": headers, "failed_at": no_whole_second()}
                )

    def handle_on(self):
        """Handlers to which nothing comes are restarted, as whoever runs them would do."""
        self.handle(0.2)
        if time.monotonic() > self.came + SILENCE_S:
            print(f"\n  {len(self.open)} tasks open, nothing comes: handlers restarted", flush=True)
            self.restart()

    def restart(self):
        self.came = time.monotonic()
        for reader in [*self.readers, *self.tiers.values()]:
            reader.restart()

    def bury(self):
        """Closes what the archive has as dead."""
        for row in self.pipeline.dead_letters():
            self.open.discard(row["task_id"])
            self.open.discard(row["raw"])

    def finish(self, timeout=90):
        """Handles on until every task has ended, or time is up; whatever comes twice comes too."""
        deadline = time.monotonic() + timeout
        while (self.open or self.later) and time.monotonic() < deadline:
            self.handle_on()
            try:
                self.bury()
            except psycopg.OperationalError:
                pass
        quiet = time.monotonic() + QUIET_S
        while time.monotonic() < quiet:
            self.handle(0.2)
        assert self.pipeline.producer.flush(60) == 0

    def await_replayed(self, replays, timeout=90):
        """Handles on until all that these jobs sent has come to its end."""
        sent = {(item.task_id, job.job) for job in replays for item in job.items if item.sent}
        deadline = time.monotonic() + timeout
        while (left := sent - self.revived) and time.monotonic() < deadline:
            self.handle_on()
            dead = {(r["task_id"], r["replay_job"]) for r in self.pipeline.dead_letters()}
            if left <= dead:
                break

    def so_far(self):
        """What is known without asking a server, where one is in the way of the history."""
        return {
            "plans": self.plans, "open": self.open, "ahead": self.ahead, "set_back": self.set_back,
            "received": [record for reader in self.readers for record in reader.records],
        }  # fmt: skip

    def history(self, replays=()):
        """Everything, read from the start, once nothing is under way any more."""
        pipeline, kafka = self.pipeline, self.pipeline.kafka.bootstrap
        left = unsettled(pipeline)
        self.handle(2)  # what was sent meanwhile
        received = {
            (r.topic, r.partition, r.offset): r.received_ms for q in self.readers for r in q.records
        }
        deliveries = [
            Delivery(
                m.topic(), m.partition(), m.offset(), m.key(), m.value(), m.headers() or [],
                received.get((m.topic(), m.partition(), m.offset())), m.timestamp()[1],
            )
            for reader in self.readers
            for m in read_all(kafka, reader.topic)
        ]  # fmt: skip
        parked = [
            Delivery(r.topic, r.partition, r.offset, r.key, r.value, r.headers, r.received_ms, r.timestamp_ms)
            for reader in self.tiers.values()
            for r in reader.records
        ]
        events = [
            Event(m.partition(), m.offset(), m.key(), m.value(), contract.read_event(m.value()))
            for m in read_all(kafka, f"{pipeline.prefix}failed-tasks")
        ]
        letters = [
            Letter(
                m.partition(), m.offset(), m.key(),
                contract.times_as_ms(contract.read_dead_letter(m.value())),
            )
            for m in read_all(kafka, f"{pipeline.prefix}dead-letter")
        ]  # fmt: skip
        with psycopg.connect(pipeline.dsn, row_factory=dict_row) as connection:
            offsets = connection.execute("select partition, next_offset from archive_offset")
            archived = {row["partition"]: row["next_offset"] for row in offsets}
            rows = connection.execute("select * from archive").fetchall()
            counts = {
                tuple(row[name] for name in COUNT_KEY): (row["n"], row["came_back"])
                for row in connection.execute(COUNTS)
            }
            groupless = [row["fingerprint"] for row in connection.execute(GROUPLESS)]
            back = [row["partition"] for row in connection.execute("select partition from went_back")]
        return History(
            self.plans, events, deliveries, letters, rows, archived, self.ahead, set(received),
            list(replays), unsettled=left, counts=counts, went_back=back, parked=parked,
            groupless=groupless, calm_ms=self.calm_ms,
            may_double=pipeline.config.get("guarantee") == "at-least-once",
            lead_ms=lead_ms(pipeline.config), set_back=self.set_back,
        )  # fmt: skip


def lead_ms(config):
    """How long before its time the delayer may send something."""
    if config.get("guarantee") == "at-least-once":
        return 0
    return int(config.get("delayer", {}).get("prepare_ahead", "10ms").removesuffix("ms"))


def wait_stable(bootstrap, topic, partitions, timeout=60):
    """Until no transaction is under way, whose end a read_committed reader would have to await."""
    admin, deadline = AdminClient({"bootstrap.servers": bootstrap}), time.monotonic() + timeout
    asked = {TopicPartition(topic, p): OffsetSpec.latest() for p in partitions}

    def ends(level):
        answers = admin.list_offsets(asked, isolation_level=level, request_timeout=10)
        return {tp.partition: answer.result().offset for tp, answer in answers.items()}

    while True:
        stable, high = ends(IsolationLevel.READ_COMMITTED), ends(IsolationLevel.READ_UNCOMMITTED)
        if stable == high:
            return
        assert time.monotonic() < deadline, f"{topic}: transactions hang: {stable} of {high}"
        time.sleep(0.5)


def unsettled(pipeline, timeout=30):
    """Places of the records in failed-tasks and then in the tiers, retired ones too, that are not settled by what the
    routers and the delayers committed, when there are none any more or time is up."""
    events = unsettled_of(pipeline, "reprise-router", "failed-tasks", timeout)
    return events + unsettled_of(pipeline, "reprise-delayer", "retry-", timeout)


def unsettled_of(pipeline, group, topics, timeout):
    """Of a group, in the topics whose names begin so."""
    bootstrap, deadline = pipeline.kafka.bootstrap, time.monotonic() + timeout
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": pipeline.prefix + group})
    try:
        names = [name for name in consumer.list_topics(timeout=10).topics if name.startswith(pipeline.prefix + topics)]
        assert names, f"no {topics}"
        while True:
            left = [place for name in names for place in uncommitted(consumer, bootstrap, name)]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.5)
    finally:
        consumer.close()


def uncommitted(consumer, bootstrap, topic):
    asked = [TopicPartition(topic, p) for p in partitions_of(consumer, topic)]
    low = {tp.partition: tp.offset for tp in consumer.committed(asked, timeout=10) if tp.offset >= 0}
    return [(topic, m.partition(), m.offset()) for m in read_all(bootstrap, topic, begin=low)]


def read_all(bootstrap, topic, timeout=60, begin={}):
    """All committed records of a topic, from its beginning, or these offsets, to what is its end now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        partitions = partitions_of(consumer, topic)
        wait_stable(bootstrap, topic, partitions)
        consumer.assign([TopicPartition(topic, p, begin.get(p, OFFSET_BEGINNING)) for p in partitions])
        messages, left, deadline = [], set(partitions), time.monotonic() + timeout
        while left:
            assert time.monotonic() < deadline, f"{topic}: cannot read {left} to the end"
            for message in consumer.consume(500, 0.05):
                if message.error() is None:
                    messages.append(message)
                elif message.error().code() == -191:  # the partition's end
                    left.discard(message.partition())
        return messages
    finally:
        consumer.close()
