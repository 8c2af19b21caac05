# SPDX-License-Identifier: Apache-2.0
"""What is done to a pipeline. Each fault is a generator: it does harm, yields a condition to wait for
while the load goes on (a function that tells, or a number of seconds), and mends what it did. What it
draws comes from an rng of its own, as much of it whatever it meets, so that a seed repeats it."""

import math
import os
import re
import signal

import psycopg
from cluster import library_of_faketime, transactional_id
from relay import COMMITS, OFFSETS, Rule, Trap
from replays import replay

ABANDONED = 3  # a drain, where the brokers or the database were away meanwhile
MET_S = 40  # so long a fault lies in wait: a worker that had to let go of a broker is back by then
END_S = 60  # a commit takes twenty seconds at most, and once more what one call may take


def some_time(rng, *weights):
    """Before anybody notices; until a member is given up; until its transaction is, too."""
    return rng.choices([rng.uniform(0, 2), rng.uniform(5, 9), rng.uniform(32, 36)], weights)[0]


def kill_service(h, rng):
    service = h.choose(rng)
    service.kill()
    yield some_time(rng, 5, 3, 1)
    service.start()


def kill_several_services(h, rng):
    running = h.running()
    running.remove(rng.choice([s for s in running if s.name != "archiver"]))  # for another fault to choose
    victims = rng.sample(running, min(3, len(running)))
    for service in victims:
        service.kill()
    yield rng.uniform(0, 6)
    for service in victims:
        service.start()


def freeze_service(h, rng):
    """The zombie: when it wakes up its partitions belong to somebody else."""
    service = h.choose(rng)
    service.process.send_signal(signal.SIGSTOP)
    yield rng.choice([rng.uniform(0.2, 3), rng.uniform(5, 9), rng.uniform(14, 19), rng.uniform(32, 36)])
    service.process.send_signal(signal.SIGCONT)


def break_broker(h, rng, n, kill=True):
    yield h.background(lambda: h.kafka.stop_broker(n, kill))
    yield rng.uniform(0, 3)
    yield h.background(lambda: h.kafka.start_broker(n))


def kill_broker(h, rng):
    yield from break_broker(h, rng, rng.randint(1, 3))


def kill_controller(h, rng):
    other = rng.randint(1, 3)
    n = h.kafka.controller()
    h.met["kill_controller"] += n is not None
    yield from break_broker(h, rng, n or other)


def kill_coordinator(h, rng):
    """The broker of a group, or of a worker's transactions."""
    service = h.choose(rng, "router", "delayer")
    group, other = f"{h.pipeline.prefix}reprise-{service.name}", rng.randint(1, 3)
    if rng.random() < 0.5:
        n = h.kafka.coordinator("__consumer_offsets", group)
    else:
        n = h.kafka.coordinator("__transaction_state", f"{group}-{transactional_id(service)}-0")
    h.met["kill_coordinator"] += n is not None
    yield from break_broker(h, rng, n or other)


def rolling_restart(h, rng):
    for n in (1, 2, 3):
        yield from break_broker(h, rng, n, kill=False)


def cut_network(h, rng):
    """Between a service and one broker or all; what is held up comes late, or never."""
    service = h.choose(rng, "router", "delayer", "archiver")
    rule = Rule(rng.choice([None, 1, 2, 3]), service.process.pid, cut=True)
    h.relay.add(rule)
    yield some_time(rng, 4, 4, 1)
    h.met["cut_network"] += rule.met
    h.relay.remove(rule, close=rng.random() < 0.5)


def slow_network(h, rng):
    service = h.choose(rng, "router", "delayer", "archiver")
    delay_s = rng.choice([0.02, 0.1, 0.4])
    rule = Rule(rng.choice([None, 1, 2, 3]), service.process.pid, delay_s=delay_s)
    h.relay.add(rule)
    yield rng.uniform(2, 6)
    h.met["slow_network"] += rule.met
    h.relay.remove(rule, close=False)


def lose_answer(h, rng):
    """A transaction's commit, or its offsets (without transactions, its records), whose outcome the service does not
    learn: at once, after a while, or never on this connection. Whether it was done is another choice."""
    service = h.choose(rng, "router", "delayer")
    api_key = rng.choice([COMMITS, COMMITS, OFFSETS])[h.guarantee]
    trap = Trap(api_key, service.process.pid, lost=rng.random() < 0.5)
    h.relay.traps.append(trap)
    yield h.unless(trap.done.is_set, MET_S)
    yield rng.choice([0, rng.uniform(1, 5), 24])
    h.met["lose_answer"] += h.relay.disarm(trap)


def kill_coordinator_in_commit(h, rng):
    service = h.choose(rng, "router", "delayer")
    met = yield from kill_in_commit(h, service.process, rng.uniform(0, 0.02), rng.uniform(0, 3), MET_S)
    h.met["kill_coordinator_in_commit"] += met


def kill_in_commit(h, process, after_s, pause_s, patience_s):
    """The coordinator's broker dies so long after it was asked to commit, which takes it some 10 ms; whether there was one."""
    stopped = []
    trap = Trap(
        COMMITS[h.guarantee], process.pid,
        lambda n: stopped.append((n, h.background(lambda: h.kafka.kill_broker(n, after_s)))),
    )  # fmt: skip
    h.relay.traps.append(trap)
    yield h.unless(trap.done.is_set, patience_s)
    h.relay.disarm(trap)
    for n, done in stopped:
        yield done
        yield pause_s
        yield h.background(lambda n=n: h.kafka.start_broker(n))
    return bool(stopped)


def kill_postgres(h, rng):
    """Its first process dies without a word, or all are told to end at once."""
    yield h.background(rng.choice([h.postgres.kill, h.postgres.stop]))
    yield rng.choice([0, rng.uniform(0, 4)])
    yield h.background(h.postgres.start)


def exhaust_postgres(h, rng):
    """No connection is left, and the archivers' own are ended."""
    taken = []
    try:
        while len(taken) < 2 * h.postgres.CONNECTIONS:
            taken.append(psycopg.connect(h.pipeline.dsn, connect_timeout=5, autocommit=True))
            taken[0].execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name <> ''"
                " and pid <> pg_backend_pid()"
            )
    except psycopg.OperationalError as refused:
        h.met["exhaust_postgres"] += bool(re.search("too many clients|connection slots", str(refused)))
    yield rng.uniform(1, 4)
    for connection in taken:
        connection.close()


def add_worker(h, rng):
    service = h.pipeline.add(rng.choice(h.wanting()))
    h.configure(service)
    service.start()
    yield rng.uniform(0, 2)


def remove_worker(h, rng):
    many = [s for s in h.running() if len([o for o in h.running() if o.name == s.name]) > 1]
    if not many:
        return
    service = rng.choice(many)
    h.pipeline.services.remove(service)
    yield from stop(h, service)


def restart_service(h, rng):
    """Once more in the midst of its start, or not."""
    service = h.choose(rng)
    yield from restart(h, service)
    if rng.random() < 0.5:
        yield rng.uniform(0.2, 1.5)
        yield from restart(h, service)


def stop(h, service):
    service.process.send_signal(signal.SIGTERM)
    yield h.unless(lambda: service.process.poll() is not None, END_S)
    if (code := service.process.poll()) is None:
        service.kill()
        code = f"no end in {END_S} s"
    if code != 0 and not (code == ABANDONED and h.servers_away()):
        h.complain(f"{service.label} after SIGTERM: {code}")


def restart(h, service, **environment):
    yield from stop(h, service)
    service.start(**environment)


def hold_much(h, rng):
    """More than memory takes, for 3.5 s or 1.5, by tier, until it is due 5.5 s from now."""
    # However little memory a worker is given, it spills when it begins its third segment of 1 MiB. Each of
    # these fills one, and what has one key is all one worker's.
    key = b"bulky-%d" % rng.randrange(100)
    h.load.repeat(math.inf)  # a router that takes a partition over does not look for repeats beyond so many bytes
    for _ in range(8):
        h.load.emit("bulky", key, 600_000)


def fill_disk(h, rng):
    """The spill file's disk is full while more is held than memory takes."""
    failed = h.spills_said(" spill-failed ")
    hold_much(h, rng)
    room = os.statvfs(h.spill)
    filler = h.spill / "filler"
    try:
        with open(filler, "wb") as f:
            f.write(bytes(room.f_bavail * room.f_frsize))
    except OSError:
        pass  # as full as it gets
    yield rng.uniform(6, 9)
    filler.unlink()
    h.met["fill_disk"] += h.spills_said(" spill-failed ") > failed


def cut_spill(h, rng):
    """What a delayer has spilled is gone when it wants it back, and is only in the log."""
    failed = h.spills_said(' batch-failed error="spill file: ')
    hold_much(h, rng)
    yield h.unless(lambda: any([cut_file(path) for path in h.spill_files()]), 8)
    yield rng.uniform(4, 6)
    h.met["cut_spill"] += h.spills_said(' batch-failed error="spill file: ') > failed


def cut_file(path):
    """Whether there was anything to cut. The process that has it may be gone."""
    try:
        size = os.stat(path).st_size
        os.truncate(path, 0)
    except FileNotFoundError:
        return False
    return size > 0


def step_clock(h, rng):
    """A service's wall clock goes forward or back, and then right again."""
    library = library_of_faketime()
    service = h.choose(rng, "router", "delayer")
    clock = h.pipeline.folder / f"{service.label}.clock"
    clock.write_text("+0")
    yield from restart(
        h, service, LD_PRELOAD=str(library), FAKETIME_TIMESTAMP_FILE=str(clock),
        FAKETIME_DONT_FAKE_MONOTONIC="1", FAKETIME_NO_CACHE="1",
    )  # fmt: skip
    yield h.unless(lambda: service.get("/readyz")[0] == 200, 20)
    # A router that is behind by more than router.clock_skew counts from its own clock (README.md): early.
    step_s = rng.choice([1, 3, 10, -1, -3, -3 if service.name == "router" else -10])
    began_ms = h.now_ms()
    clock.write_text(f"{step_s:+d}")

    def seen():
        ahead_ms = h.ahead_ms(service, began_ms)
        return ahead_ms is not None and abs(ahead_ms - 1000 * step_s) < 500

    yield rng.uniform(1, 5)
    yield h.unless(seen, MET_S)
    h.met["step_clock"] += seen()
    right_ms = h.now_ms()
    clock.write_text("+0")
    # What it was about to send just then looks sent before its time.
    h.load.set_back.append((right_ms if step_s > 0 else began_ms + 1000 * step_s, 1000 * abs(step_s)))
    if step_s > 0:
        # What it let go until then is due a step later at most, however long that was under way.
        h.load.ahead.append((began_ms, h.now_ms() + 1000 * step_s, 1000 * step_s))
    yield 1
    yield from restart(h, service)


def change_tiers(h, rng):
    def apply():
        h.pipeline.cli("topics", "apply")
        h.load.watch_tiers()

    dead = rng.random() < 0.5
    h.tiers = 1 - h.tiers
    h.reconfigure()
    yield h.background(apply)
    for service in h.running():
        if service.name != "archiver":
            if dead:
                service.kill()
                service.start()
            else:
                yield from restart(h, service)
            yield h.unless(lambda: service.get("/readyz")[0] == 200, 20)


# They may meet nothing: nobody asks meanwhile, nothing is spilled, nobody says who leads, nothing is logged. But not time
# and again.
LURKING = (
    "lose_answer", "kill_coordinator_in_commit", "fill_disk", "cut_spill", "kill_controller", "kill_coordinator",
    "step_clock", "cut_network", "slow_network", "exhaust_postgres",
)  # fmt: skip
IN_VAIN = 6  # so often is no chance any more

# How often each, and what it must have for itself: two of a kind would undo each other, or more
# brokers would be away than the topics can do without.
FAULTS = {
    kill_service: (10, None),
    kill_several_services: (3, "services"),
    freeze_service: (8, "services"),
    kill_broker: (3, "brokers"),
    kill_controller: (2, "brokers"),
    kill_coordinator: (3, "brokers"),
    rolling_restart: (1, "brokers"),
    cut_network: (6, "network"),
    slow_network: (3, "network"),
    lose_answer: (5, "network"),
    kill_coordinator_in_commit: (2, "brokers"),
    kill_postgres: (4, "postgres"),
    exhaust_postgres: (2, "postgres"),
    add_worker: (4, "services"),
    remove_worker: (4, "services"),
    restart_service: (3, "services"),
    fill_disk: (3, "disk"),
    cut_spill: (2, "disk"),
    step_clock: (3, "services"),
    change_tiers: (1, "services"),
    replay: (8, None),
}
