# SPDX-License-Identifier: Apache-2.0
"""Judges a history: what was asked for, against all that can be read in the topics and the archive.

Knows nothing of how the services work, and needs no server. The rules are DESIGN.md's promises:
nothing lost, nothing doubled, nothing early, attempts count up by one, every task ends in success or
in exactly one dead letter, and what is handed on is the same byte for byte."""

import collections
import datetime

from history import COUNTED, ENDED_JOBS, number_of, own_headers, pairs, replay_of, succeeds, text_of

Fault = collections.namedtuple("Fault", "rule task_id text")

NAMES = ("reprise-task-id", "reprise-attempt", "reprise-due", "reprise-first-failed-at")
PARKED_NAMES = (*NAMES, "reprise-target", "reprise-policy")
# Nothing waits so long behind its time, be some servers away: the longest fault and a transaction's time-out. Nor so
# long once nothing is away any more.
STALL_MS, CALM_STALL_MS = 120_000, 60_000
LAP_MS = 1000  # what waits no longer goes round no tier again
MOST = 8  # times that one outcome comes at least once: deaths and lost answers that one record can meet
LEFT_OUT = {"payload", "headers", "error"}  # of a task that does not fit dead-letter
TASK_COLUMNS = {
    "task_id": "task_id", "task_type": "task_type", "target": "target", "key": "task_key",
    "payload": "payload", "attempt": "attempt", "source": "source",
}  # fmt: skip


def judge(history):
    """All faults of the history, worst rules first."""
    judge = Judge(history)
    for rule in (
        judge.outcomes, judge.attempts, judge.contents, judge.times, judge.late, judge.ends, judge.letters,
        judge.archive, judge.readers, judge.replays, judge.states, judge.counts, judge.tiers, judge.parked,
        judge.homes,
    ):  # fmt: skip
        rule()
    return judge.faults


class Judge:
    def __init__(self, history):
        self.history = history
        self.faults = []
        # (task id, replay id, attempt that failed): what was said, and what came of it
        self.said = collections.defaultdict(list)
        self.sent = collections.defaultdict(list)
        self.buried = collections.defaultdict(list)
        for event in history.events:
            self.said[self.key_of_event(event)].append(event)
        self.waited = collections.defaultdict(list)  # in tiers
        for records, by_key in (history.deliveries, self.sent), (history.parked, self.waited):
            for record in records:
                by_key[self.key_of(record.headers)].append(record)
        for letter in history.letters:
            self.buried[self.key_of_letter(letter.letter)].append(letter)
        self.places = {(letter.partition, letter.offset): letter for letter in history.letters}
        # What jobs sent: by (task id, job) the attempt that the dead letter was about
        self.replayed = {}
        # The same where it went to the target: as if the job had said that the attempt failed
        self.asked = set()
        for job in history.replays:
            for item in [item for item in job.items if item.sent and item.place in self.places]:
                task = self.places[item.place].letter["task"]
                self.replayed[task["task_id"], job.job] = task["attempt"]
                if job.to == "target":
                    self.asked.add((task["task_id"], job.job, task["attempt"]))

    def say(self, rule, task_id, text):
        self.faults.append(Fault(rule, task_id, text))

    @staticmethod
    def key_of(headers):
        attempt = number_of(headers, "reprise-attempt") or 0
        return text_of(headers, "reprise-task-id"), replay_of(headers), attempt - 1

    @staticmethod
    def key_of_event(event):
        if event.task is None:
            return bytes(event.value or b""), None, 0
        return event.task["task_id"], replay_of(pairs(event.task)), event.task["attempt"]

    @staticmethod
    def key_of_letter(letter):
        if letter["task"] is None:
            return bytes(letter["raw"] or b""), None, 0
        task = letter["task"]
        return task["task_id"], replay_of(pairs(task)), task["attempt"]

    def outcomes(self):
        """Each event has exactly one outcome; nothing comes of nothing."""
        for key in self.said.keys() | self.asked | self.sent.keys() | self.buried.keys():
            sent, buried = len(self.sent.get(key, ())), len(self.buried.get(key, ()))
            what = f"attempt {key[2]}: {sent} re-invocations, {buried} dead letters"
            if key[1] is not None:
                what += f" in replay {key[1]}"
            if key not in self.said and key not in self.asked:
                self.say("attempt", key[0], f"no event said so, {what}")
            elif sent + buried == 0:
                self.say("lost", key[0], what)
            elif sent + buried > 1 and not self.may_be_so_often(key[0], sent, buried):
                self.say("doubled", key[0], what)

    def may_be_so_often(self, task_id, sent, buried):
        """Where a deadline passes meanwhile, what is decided once more is decided otherwise."""
        plan = self.history.plans.get(task_id)
        hurried = plan is not None and plan.reason == "DEADLINE_EXCEEDED"
        return self.history.may_double and max(sent, buried) <= MOST and (hurried or 0 in (sent, buried))

    def attempts(self):
        """Attempts count up by one from 1, both as they are asked for and as they fail."""
        failed = collections.defaultdict(set)
        for task_id, replay, attempt in self.said:
            if attempt > 0:
                failed[task_id, replay].add(attempt)
        for (task_id, replay), attempts in failed.items():
            first = 1
            if replay is not None:
                first = self.replayed.get((task_id, replay), 0)
                first += (task_id, replay, first) in self.asked
                plan = self.history.plans.get(task_id)
                tries = 1 if plan is None or plan.rescue is None else 2
                if plan is not None and plan.reason == "EXHAUSTED" and len(attempts) > tries:
                    self.say("attempt", task_id, f"failed {len(attempts)} times in replay {replay}")
            if attempts != set(range(first, max(attempts) + 1)):
                self.say("attempt", task_id, f"attempts that failed: {sorted(attempts)}")

    def contents(self):
        """A re-invocation is the task as it was: key, payload, headers in their order."""
        for d in self.history.deliveries:
            plan = self.history.plans.get(text_of(d.headers, "reprise-task-id"))
            if plan is None:
                self.say("altered", None, f"{d.topic}-{d.partition}@{d.offset}: whose is this?")
                continue
            own = [(k, v) for k, v in d.headers if not k.startswith("reprise-")]
            names = sorted(k for k, _ in d.headers if k.startswith("reprise-"))
            replay, rescued = replay_of(d.headers), "reprise-fallback" in names
            if replay is None or plan.rescue is None:
                rescued = plan.rescue is not None and plan.rescued_at == number_of(d.headers, "reprise-attempt")
            extra = ["reprise-replay-id"] * bool(replay) + ["reprise-fallback"] * rescued
            wanted = sorted([*NAMES, *extra])
            for what, is_there, was in (
                ("topic", d.topic, plan.rescue if rescued else plan.target), ("key", d.key, plan.key),
                ("payload", d.value, plan.payload), ("headers", own, plan.headers),
                ("reprise's headers", names, wanted),
            ):  # fmt: skip
                if is_there != was:
                    self.say("altered", plan.task_id, f"{what}: {is_there!r} for {was!r}")

    def homes(self):
        """What has the same key is in the same partition of a topic."""
        homes = collections.defaultdict(set)
        for d in self.history.deliveries + self.history.parked:
            homes[d.topic, d.key].add(d.partition)
        for l in self.history.letters:
            if l.letter["task"] is not None:
                homes["dead-letter", l.key].add(l.partition)
        for (topic, key), partitions in homes.items():
            if key and len(partitions) > 1:
                self.say("altered", None, f"{key!r} is in {len(partitions)} partitions of {topic}")

    def ahead_at(self, ms):
        return max((a for begin, end, a in self.history.ahead if begin <= ms <= end), default=0)

    def lead_at(self, ms):
        """How much before it is due something may be sent, by its sender's clock: what a transaction begins ahead. That
        clock has said that it is time, however wrong it is, unless it was set back while the record was in hand: behind
        the step nothing that it took before lies ahead any more."""
        set_back = (by for at, by in self.history.set_back if at <= ms <= at + by)
        return self.history.lead_ms + max(set_back, default=0)

    def times(self):
        """Nothing is due before its delay is over, nothing is sent or readable before it is due."""
        for key, deliveries in self.sent.items():
            said = self.said.get(key)
            plan = self.history.plans.get(key[0])
            for d in deliveries:
                if plan is None:
                    continue  # told by another rule
                due = number_of(d.headers, "reprise-due")
                if due is None:
                    self.say("altered", key[0], f"attempt {key[2]}: no number in reprise-due")
                    continue
                first = number_of(d.headers, "reprise-first-failed-at")
                before = self.said.get((key[0], None, 1))
                if said is not None:
                    failed_at = min(event.task["failed_at"] for event in said)
                    # The last try is made at once.
                    if due < failed_at + (0 if d.topic == plan.rescue else plan.min_delay_ms):
                        self.say("early", key[0], f"attempt {key[2]} due {due - failed_at} ms after it")
                if d.received_ms is not None and d.received_ms < due - self.ahead_at(d.received_ms):
                    self.say("early", key[0], f"attempt {key[2]}: {due - d.received_ms} ms")
                # One that is read late tells nothing of when it was sent.
                if d.sent_ms is not None and d.sent_ms < due - self.lead_at(d.sent_ms):
                    self.say("early", key[0], f"attempt {key[2]} sent {due - d.sent_ms} ms before it was due")
                if before and first != before[0].task["failed_at"]:
                    self.say("altered", key[0], f"first-failed-at: {first}")
                if first is not None and plan.deadline_ms is not None and due - first > plan.deadline_ms:
                    self.say("deadline", key[0], f"attempt {key[2]} due {due - first} ms after the first failure")

    def late(self):
        """Nothing is due behind the longest delay that its policy draws, and nothing comes long after it is due."""
        for key, events in self.said.items():
            plan = self.history.plans.get(key[0])
            if plan is None or plan.max_delay_ms is None or key[1] is not None:
                continue
            last = max(event.task["failed_at"] for event in events) + plan.max_delay_ms
            limit = min(last + STALL_MS, max(last, self.history.calm_ms) + CALM_STALL_MS)
            for d in self.sent.get(key, ()):
                if d.sent_ms is not None and d.sent_ms > limit:
                    self.say("late", key[0], f"attempt {key[2]}: {d.sent_ms - last} ms after its longest delay")
            if waits := self.waited.get(key):
                # A clock that is behind counts from when the event was appended, which is before this.
                latest = max(last, min(d.sent_ms for d in waits) + plan.max_delay_ms)
                for due in [number_of(d.headers, "reprise-due") for d in waits]:
                    if due is not None and due > latest + self.ahead_at(latest):
                        self.say("late", key[0], f"attempt {key[2]} due {due - last} ms after its longest delay")

    def ends(self):
        """Every task ends as planned, once, and once more in each replay that sent it."""
        ended = collections.defaultdict(list)
        for (task_id, replay, attempt), sent in self.sent.items():
            plan = self.history.plans.get(task_id)
            if plan and succeeds(plan, replay, attempt + 1):
                ended[task_id, replay] += ["success"] * len(sent)
        for (task_id, replay, _), buried in self.buried.items():
            ended[task_id, replay] += [b.letter["reason"] for b in buried]
        for task_id, plan in self.history.plans.items():
            wanted, ends = plan.reason or "success", self.once(ended[task_id, None])
            if ends != [wanted]:
                self.say("end", task_id, f"{ends or 'none'} for {wanted}")
        for task_id, job in self.replayed:
            ends, plan = self.once(ended[task_id, job]), self.history.plans.get(task_id)
            if len(ends) != 1 or plan is None or ends[0] not in ("success", plan.reason):
                self.say("end", task_id, f"{ends or 'none'} in replay {job}")

    def doubled(self):
        """How many outcomes came more than once, of all."""
        counts = [len(outcomes) for of in (self.sent, self.buried) for outcomes in of.values()]
        return sum(count > 1 for count in counts), len(counts)

    def waits(self):
        """How many outcomes were seen to wait in a tier, of how many that must have. Those have one delay, and are due
        when it is over, so the router was in time."""
        must = [key for key, sent in self.sent.items() if self.must_wait(key, sent)]
        return sum(key in self.waited for key in must), len(must)

    def must_wait(self, key, sent):
        plan = self.history.plans.get(key[0])
        if plan is None or not 0 < plan.min_delay_ms == plan.max_delay_ms:
            return False
        over = {event.task["failed_at"] + plan.min_delay_ms for event in self.said.get(key, ())}
        return any(d.topic != plan.rescue and number_of(d.headers, "reprise-due") in over for d in sent)

    def once(self, ends):
        return sorted(set(ends)) if self.history.may_double else ends

    def letters(self):
        """A dead letter has its event as it came, its key and where it was, and says how often it was tried."""
        for key, letters in self.buried.items():
            task_id, replay, attempt = key
            plan = self.history.plans.get(task_id)
            if plan is None:
                self.say("altered", task_id, "a dead letter of what nobody sent")
            said = self.said.get(key, ())
            for l in letters:
                task = l.letter["task"]
                if not any(self.is_of(task, event) for event in said):
                    self.say("altered", task_id, "the dead letter's task is not its event")
                if l.key not in [key_of_record(event) for event in said]:
                    self.say("altered", task_id, f"the dead letter's key: {l.key!r}")
                if not self.is_origin(l.letter, said, self.waited.get(key, ())):
                    place = l.letter["topic"], l.letter["partition"], l.letter["offset"]
                    self.say("altered", task_id, "the dead letter's event is not at {}-{}@{}".format(*place))
                if task is not None and l.letter["raw"] is not None:
                    self.say("altered", task_id, "a dead letter has a task and raw bytes")
                if plan and plan.deadline_ms is not None:
                    self.overdue(plan, l.letter)
                for name in ("policy", "category"):
                    if plan and getattr(plan, name) not in (None, l.letter[name]):
                        self.say("altered", task_id, f"the dead letter's {name}: {l.letter[name]!r}")
                planned = plan.attempts if plan and replay is None else None
                wanted = attempt if planned is None else planned
                if l.letter["attempts"] != wanted:
                    self.say("attempt", task_id, f"{l.letter['attempts']} for {wanted}")

    def overdue(self, plan, letter):
        """Its next re-invocation would not have been due in time; by the router's clock, as it is in the dead letter."""
        task, first = letter["task"], self.said.get((plan.task_id, None, 1))
        if task is not None and first:
            due = max(task["failed_at"] + plan.min_delay_ms, letter["decided_at"])
            if due - first[0].task["failed_at"] <= plan.deadline_ms:
                self.say("deadline", plan.task_id, f"dead {due - first[0].task['failed_at']} ms after the first failure")

    def is_of(self, task, event):
        """Whether a dead letter's task is the event's."""
        if task is None or event.task is None or len(event.value) <= self.history.fits:
            return task == event.task
        return all(task[name] == event.task[name] for name in task.keys() - LEFT_OUT)

    def is_origin(self, letter, said, waits):
        """Whether its event can be where the dead letter says: in failed-tasks, or in a tier. There the reader may have
        missed a record: that of a second decision, or of another lap."""
        topic, place = letter["topic"], (letter["partition"], letter["offset"])
        if topic.endswith("failed-tasks"):
            return place in [event[:2] for event in said]
        if "retry-" not in topic:
            return False
        seen = [(d.topic, d.partition, d.offset) for d in waits]
        laps = any((number_of(d.headers, "reprise-due") or 0) > d.sent_ms + LAP_MS for d in waits)
        return (topic, *place) in seen or not seen or laps or self.history.may_double

    def tiers(self):
        """Once every task has ended, everything in failed-tasks and the tiers is settled."""
        for place in self.history.unsettled:
            self.say("unsettled", None, "{}-{}@{}".format(*place))

    def parked(self):
        """What waits in a tier is its event as it came, and says of it what is so."""
        for key, waits in self.waited.items():
            plan, events = self.history.plans.get(key[0]), self.said.get(key)
            if plan is None or events is None:
                self.say("altered", key[0], f"{len(waits)} records in {waits[0].topic} are of no event")
                continue
            firsts = [event.task["failed_at"] for event in self.said.get((key[0], None, 1), ())]
            rescued = plan.rescue is not None and plan.rescued_at == key[2] + 1
            targets = [plan.rescue if rescued else plan.target] if key[1] is None else [plan.target, plan.rescue]
            wanted = sorted([*PARKED_NAMES, *["reprise-replay-id"] * (key[1] is not None)])
            for d in waits:
                target, due = text_of(d.headers, "reprise-target"), number_of(d.headers, "reprise-due")
                for what, is_there, were in (
                    ("value", d.value, [event.value for event in events]),
                    ("key", d.key, [key_of_record(event) for event in events]),
                    ("headers", sorted(name for name, _ in d.headers), [wanted]),
                    ("target", target, targets),
                    ("policy", text_of(d.headers, "reprise-policy"), [plan.policy]),
                    ("first failure", number_of(d.headers, "reprise-first-failed-at"), firsts),
                ):  # fmt: skip
                    if is_there not in were and were not in ([None], []):
                        self.say("altered", key[0], f"{what} in {d.topic}: {is_there!r} for {were!r}")
                least = 0 if target == plan.rescue else plan.min_delay_ms
                if due is None or due < min(event.task["failed_at"] for event in events) + least:
                    self.say("early", key[0], f"attempt {key[2]} due at {due} in {d.topic}")
            dues = {number_of(d.headers, "reprise-due") for d in waits}
            for d in self.sent.get(key, ()):
                # Twice decided, it waits for two times, of which the reader may have missed one.
                if not self.history.may_double and {number_of(d.headers, "reprise-due")} != dues:
                    self.say("altered", key[0], f"attempt {key[2]} was due at {dues}")

    def archive(self):
        """The archive has each dead letter once, as it is, and knows how far it has come."""
        rows = collections.defaultdict(list)
        for row in self.history.rows:
            rows[row["record_partition"], row["record_offset"]].append(row)
        for l in self.history.letters:
            task_id = (l.letter["task"] or {}).get("task_id")
            mine = rows.pop((l.partition, l.offset), [])
            if len(mine) != 1:
                self.say("archive", task_id, f"{len(mine)} rows for one dead letter")
                continue
            for what, text in differences(mine[0], l):
                self.say("archive", task_id, f"{what}: {text}")
            if self.history.archived_to.get(l.partition, 0) <= l.offset:
                self.say("archive", task_id, "the archive's offset is behind its rows")
        for (partition, offset), extra in rows.items():
            self.say("archive", extra[0]["task_id"], f"no dead letter at {partition}@{offset}")
        prints = collections.defaultdict(set)
        for row in self.history.rows:
            if row["task_id"] is not None:
                prints[row["task_type"], row["error_class"], row["error_message"]].add(row["fingerprint"])
        for of, found in prints.items():
            if len(found) > 1:
                self.say("archive", None, f"{of} has fingerprints {found}")
        for fingerprint in self.history.groupless:
            self.say("archive", None, f"no group {fingerprint}")
        for partition in self.history.went_back:
            self.say("archive", None, f"the offset of {partition} went back")

    def replays(self):
        """A job ends, and sends each of its dead letters once; two never have the same one."""
        takers = collections.defaultdict(list)
        for job in self.history.replays:
            if job.state not in ENDED_JOBS or (job.state != "done" and not job.cancelled):
                self.say("replay", None, f"{job.job} is {job.state}")
            n, refused = len(job.items), sum(item.refused for item in job.items)
            is_so = (n, n, refused, ["replay", "replay-done"])
            if job.state == "done" and job.told is not None and job.told != is_so:
                self.say("replay", None, f"{job.job} says {job.told} for {is_so}")
            for item in job.items:
                if item.place not in self.places:
                    self.say("replay", item.task_id, f"{job.job}: no dead letter at {item.place}")
                elif item.sent:
                    takers[item.place].append(job.job)
                    self.events_of(job, item)
                elif item.refused:
                    self.refusal(job, item)
                elif job.state == "done":
                    self.say("lost", item.task_id, f"{job.job} is done without it")
        for place, jobs in takers.items():
            if len(jobs) > 1:
                task_id = self.places[place].letter["task"]["task_id"]
                self.say("doubled", task_id, f"replayed by {jobs}")
        for task_id, job in {key[:2] for key in self.said.keys() | self.sent.keys() if key[1]}:
            if (task_id, job) not in self.replayed:
                self.say("replay", task_id, f"{job} did not send it")

    def states(self):
        """What jobs did to a row is on record, and which row came back as which."""
        sent = {item.place: job.job for job in self.history.replays for item in job.items if item.sent}
        by_id = {(row["dead_at"], row["id"]): row for row in self.history.rows}
        came_back = collections.defaultdict(set)
        for row in [row for row in self.history.rows if row["replay_job"] is not None]:
            origin = by_id.get((row["replay_of_at"], row["replay_of"]))
            place = origin and (origin["record_partition"], origin["record_offset"])
            if place is None or origin["task_id"] != row["task_id"] or sent.get(place) != row["replay_job"]:
                self.say("state", row["task_id"], f"came back of {place}, by {row['replay_job']}")
            came_back[place].add(row["dead_at"])
        for row in self.history.rows:
            place = row["record_partition"], row["record_offset"]
            wanted = ("replayed", sent[place], 1) if place in sent else ("dead", None, 0)
            is_there = row["status"], row["job"], row["replays"]
            if is_there != wanted:
                self.say("state", row["task_id"], f"{is_there} for {wanted}")
            if row["came_back_at"] not in (came_back[place] or {None}):
                self.say("state", row["task_id"], f"came back at {row['came_back_at']}")

    def counts(self):
        """The archive counts what is there, no more and no less."""
        counts = collections.defaultdict(lambda: [0, 0])
        for row in self.history.rows:
            hour = row["dead_at"].astimezone(datetime.timezone.utc).replace(minute=0, second=0, microsecond=0)
            key = (hour, *(row[name] for name in COUNTED))
            counts[key][0] += 1
            counts[key][1] += row["came_back_at"] is not None
        for key in counts.keys() | self.history.counts.keys():
            is_there, was = self.history.counts.get(key, (0, 0)), tuple(counts.get(key, (0, 0)))
            if tuple(is_there) != was:
                self.say("state", None, f"{is_there} counted for {was}: {key}")

    def refusal(self, job, item):
        """What has no target cannot go there. Nothing else is a reason."""
        if job.to != "target" or self.places[item.place].letter["reason"] != "NO_TARGET":
            self.say("replay", item.task_id, f"{job.job} refused it")

    def events_of(self, job, item):
        """What goes to the router goes there once, as it was."""
        letter = self.places[item.place].letter
        key = letter["task"]["task_id"], job.job, letter["task"]["attempt"]
        events = self.said.get(key, ())
        if any(event.key != key_of_record(event) for event in events):
            self.say("altered", key[0], f"the key of the event of replay {job.job}")
        said = [event.task for event in events]
        wanted = 1 if job.to == "router" else 0
        if len(said) != wanted and not (self.history.may_double and len(said) > wanted > 0):
            rule = "lost" if len(said) < wanted else "doubled"
            self.say(rule, key[0], f"{len(said)} events of replay {job.job} for {wanted}")
        for task in said if wanted else ():
            if {**task, "headers": own_headers(task)} != {
                **letter["task"], "headers": own_headers(letter["task"])
            }:  # fmt: skip
                self.say("altered", key[0], f"the event of replay {job.job}")

    def readers(self):
        """What a read_committed reader was given stays, and it is given everything."""
        there = {(d.topic, d.partition, d.offset) for d in self.history.deliveries}
        for place in sorted(self.history.seen - there):
            self.say("vanished", None, "a reader had {}-{}@{}".format(*place))
        unread = collections.defaultdict(list)
        for topic, partition, offset in there - self.history.seen:
            unread[topic, partition].append(offset)
        for (topic, partition), offsets in sorted(unread.items()):
            say = f"{topic}-{partition}: {len(offsets)} were not read, the first {min(offsets)}"
            self.say("unread", None, say)


def key_of_record(event):
    """The key of what reprise makes of it: the task's own, else its id."""
    if event.task is None:
        return event.key
    return event.task["key"] if event.task["key"] is not None else event.task["task_id"].encode()


def ms_of(time):
    return None if time is None else round(time.timestamp() * 1000)


def differences(row, letter):
    """What a row has otherwise than the dead letter."""
    body = letter.letter
    if row["altered"] is not None or row["record"] is not None:
        yield "altered", f"{row['altered']!r}"
    if ms_of(row["archived_at"]) - body["decided_at"] > STALL_MS:
        yield "archived_at", f"{row['archived_at']} for {body['decided_at']}"
    for name in ("reason", "detail", "category", "policy", "attempts"):
        if row[name] != body[name]:
            yield name, f"{row[name]!r} for {body[name]!r}"
    if row["record_key"] != letter.key or row["raw"] != body["raw"]:
        yield "bytes", "the key or the raw bytes"
    place = (row["source_topic"], row["source_partition"], row["source_offset"])
    if place != (body["topic"], body["partition"], body["offset"]):
        yield "source", f"{place}"
    # The archive takes the decision's time but where that is wrong by a day; our clocks are by seconds.
    times = (ms_of(row["decided_at"]), ms_of(row["dead_at"]))
    if times != (body["decided_at"], body["decided_at"]):
        yield "times", f"decided, dead at {times} for {body['decided_at']}"
    task = body["task"]
    if task is None:
        return
    for name, column in TASK_COLUMNS.items():
        if row[column] != task[name]:
            yield column, f"{row[column]!r} for {task[name]!r}"
    if list(zip(row["header_keys"], row["header_values"])) != pairs(task):
        yield "headers", f"{row['header_keys']}"
    if row["replay_job"] != replay_of(pairs(task)):
        yield "replay_job", f"{row['replay_job']!r}"
    error = task["error"]
    causes = [(cause["class"], cause["message"]) for cause in error["causes"]]
    for name, is_there, was in (
        ("error_class", row["error_class"], error["class"]),
        ("error_message", row["error_message"], error["message"]),
        ("error_category", row["error_category"], error["category"]),
        ("causes", list(zip(row["cause_classes"], row["cause_messages"])), causes),
        ("first_failed_at", ms_of(row["first_failed_at"]), task["first_failed_at"]),
        ("failed_at", ms_of(row["failed_at"]), task["failed_at"]),
    ):
        if is_there != was:
            yield name, f"{is_there!r} for {was!r}"
