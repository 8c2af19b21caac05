# SPDX-License-Identifier: Apache-2.0
import os
import random
import shutil
import signal

import pytest

from pipeline import BUILD, Pipeline
from registry import Registry
from servers import Kafka, Postgres, running

pipelines, seed_key = pytest.StashKey(), pytest.StashKey()


def pytest_configure(config):
    """SIGTERM ends a run like Ctrl-C does: fixtures are torn down."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    config.stash[pipelines] = []
    config.stash[seed_key] = int(os.environ.get("REPRISE_SEED") or random.randrange(1 << 32))


def pytest_report_header(config):
    return f"REPRISE_SEED={config.stash[seed_key]}"


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
def rng(request):
    return random.Random(request.config.stash[seed_key])


@pytest.fixture(scope="module")
def new_pipeline(request, kafka, postgres):
    """Makes pipelines that live as long as the module. What one wrote stays where a test failed."""
    mine = request.config.stash[pipelines]
    if not mine:
        shutil.rmtree(BUILD / "integration", ignore_errors=True)
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
