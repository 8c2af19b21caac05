# SPDX-License-Identifier: Apache-2.0
import os
import random
import signal

import pytest

from pipeline import Pipeline
from registry import Registry
from sanitizer import Sanitizer
from servers import Kafka, Postgres, end_like_an_interrupt, running

pipelines, sanitizer = pytest.StashKey(), pytest.StashKey()


def pytest_configure(config):
    end_like_an_interrupt()  # so that fixtures are torn down
    # A shell has what it puts into the background ignore it, and what we start would do so as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[pipelines] = []
    config.stash[sanitizer] = Sanitizer()
    # Processes that share the tests between them (pytest-xdist) inherit it.
    os.environ["REPRISE_SEED"] = os.environ.get("REPRISE_SEED") or str(random.randrange(1 << 32))


def pytest_unconfigure(config):
    config.stash[sanitizer].close()


def pytest_report_header():
    return f"REPRISE_SEED={os.environ['REPRISE_SEED']}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """After the fixtures that end here, and so after what leaked in a service that they ended."""
    try:
        return (yield)
    finally:
        reports = item.config.stash[sanitizer].take_reports()
        assert not reports, "a sanitizer's report:\n" + "\n".join(reports)


@pytest.fixture(scope="session")
def kafka():
    with running(Kafka) as server:
        yield server


@pytest.fixture(scope="session")
def postgres():
    with running(Postgres) as server:
        yield server


@pytest.fixture
def own_kafka():
    """A broker that nobody else needs."""
    with running(Kafka) as server:
        yield server


@pytest.fixture(scope="module")
def registry():
    with Registry() as server:
        yield server
        server.close()


@pytest.fixture
def rng():
    return random.Random(int(os.environ["REPRISE_SEED"]))


@pytest.fixture(scope="module")
def new_pipeline(request, kafka, postgres):
    """Makes pipelines that live as long as the module or, made in a test, the test. What one wrote stays where a
    test failed."""
    mine = request.config.stash[pipelines]
    first, failed_before = len(mine), request.session.testsfailed

    def make(name, kafka_server=None, partitions=4, max_message_bytes="1MiB", **config):
        server = kafka_server or kafka
        mine.append(Pipeline(server, postgres, name, config, partitions, max_message_bytes))
        return mine[-1]

    yield make
    faults = [fault for pipeline in mine[first:] for fault in pipeline.close()]
    assert not faults, faults
    if request.session.testsfailed == failed_before:
        for pipeline in mine[first:]:
            pipeline.forget()


@pytest.fixture(autouse=True)
def pipelines_end(request):
    """Those that a test made for itself: a module's together would want more than PostgreSQL's connections."""
    mine = request.config.stash[pipelines]
    first = len(mine)
    yield
    faults = [fault for pipeline in mine[first:] for fault in pipeline.close()]
    assert not faults, faults


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows the end of each service's log."""
    report = yield
    if report.failed:
        for pipeline in item.config.stash[pipelines]:
            if pipeline.folder.exists():
                for label, text in pipeline.logs().items():
                    end = "\n".join(text.splitlines()[-15:])
                    report.sections.append((f"{pipeline.folder}/{label}.log", end))
    return report
