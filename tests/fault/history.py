# SPDX-License-Identifier: Apache-2.0
"""What the checker judges: all that was asked for, and all that can be read in the topics and the archive."""

import collections
import dataclasses
import pickle

# A record of a target topic, or of a tier. `received_ms`: when a read_committed reader first had it, or None. `sent_ms`:
# its time, as the broker has it.
Delivery = collections.namedtuple(
    "Delivery", "topic partition offset key value headers received_ms sent_ms", defaults=(None,)
)
# A record of failed-tasks: its FailedTask as a dict, or None where the bytes are no such thing.
Event = collections.namedtuple("Event", "partition offset key value task")
# A record of dead-letter: its DeadLetter as a dict.
Letter = collections.namedtuple("Letter", "partition offset key letter")
# A dead letter that a replay job took: its place in dead-letter, and whether the job says that it sent it, or refused to.
Item = collections.namedtuple("Item", "task_id place sent refused", defaults=(False,))
# A replay job at the end, as the database has it. `to`: target (the task again) or router (its event). `cancelled`:
# somebody asked for that. `told`: how many it says it has in all, marked and refused, and what is in the audit.
Replay = collections.namedtuple("Replay", "job to state items cancelled told", defaults=(False, None))

COUNTED = ("task_type", "reason", "category", "fingerprint", "status")
ENDED_JOBS = ("done", "cancelled", "stopped")


@dataclasses.dataclass
class Plan:
    """A task as it was meant, and how it is to end."""

    task_id: str
    target: str | None
    key: bytes | None
    payload: bytes | None
    headers: list  # (name, value), without reprise's own
    min_delay_ms: int = 0
    succeeds_at: int | None = None  # the attempt that does not fail
    revives_at: int | None = None  # of a dead task: the attempt of a replay that does not fail
    reason: str | None = None  # or the dead letter's
    attempts: int | None = None  # executions behind the dead letter
    policy: str | None = None  # what the dead letter says of it; None: it may say anything
    category: str | None = None
    rescue: str | None = None  # the policy's fallback topic, and
    rescued_at: int | None = None  # the attempt that is its; in a replay it may be any
    max_delay_ms: int | None = None  # None: any
    deadline_ms: int | None = None  # from the first failure on, within which a re-invocation is due


@dataclasses.dataclass
class History:
    plans: dict  # by task id
    events: list
    deliveries: list
    letters: list
    rows: list  # the archive's, as dicts, with what was done to each
    archived_to: dict  # partition of dead-letter: the archive's next offset
    # Wall times between which a service's clock was ahead, and how far: (from_ms, to_ms, ahead_ms).
    ahead: list = dataclasses.field(default_factory=list)
    # Places (topic, partition, offset) of what a reader was given while the history was made.
    seen: set = dataclasses.field(default_factory=set)
    replays: list = dataclasses.field(default_factory=list)
    # The largest event that surely fits dead-letter; of a larger one the dead letter may leave things out.
    fits: int = 1_000_000
    # Places of records in failed-tasks and tiers that no committed offset says are settled.
    unsettled: list = dataclasses.field(default_factory=list)
    # What a reader of the tiers had before it was trimmed.
    parked: list = dataclasses.field(default_factory=list)
    # How many dead letters the archive says there are, and how many of them came back: by hour, type, reason, category,
    # fingerprint and status.
    counts: dict = dataclasses.field(default_factory=dict)
    # Partitions of dead-letter whose offset in the archive ever went back.
    went_back: list = dataclasses.field(default_factory=list)
    # From when on nothing was away any more.
    calm_ms: float = float("inf")
    # Fingerprints of dead letters of which the archive has no group.
    groupless: list = dataclasses.field(default_factory=list)
    # Whether what is sent may be sent twice (guarantee: at-least-once).
    may_double: bool = False
    # How long before it is due something may be sent, in a transaction that is committed in time: delayer.prepare_ahead.
    lead_ms: int = 10
    # When a service's clock was set back, as it showed from then on, and how far: (at_ms, by_ms).
    set_back: list = dataclasses.field(default_factory=list)


def text_of(headers, name):
    values = [value for key, value in headers if key == name]
    return values[0].decode() if len(values) == 1 and values[0] is not None else None


def number_of(headers, name):
    text = text_of(headers, name)
    return int(text) if text is not None and text.isdigit() else None


def replay_of(headers):
    return text_of(headers, "reprise-replay-id")


def pairs(task):
    return [(h["key"], h["value"]) for h in task["headers"]]


def own_headers(task):
    return [(name, value) for name, value in pairs(task) if not name.startswith("reprise-")]


def succeeds(plan, replay, attempt):
    """Whether this execution is the one that does not fail."""
    first = plan.succeeds_at if replay is None else plan.revives_at
    return first is not None and attempt >= first


def keep(history, folder):
    """Returns where it is kept, for whoever looks into what failed."""
    path = folder / "history.pickle"
    folder.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as f:
        pickle.dump(history, f)
    return path
