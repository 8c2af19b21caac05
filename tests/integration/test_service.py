# SPDX-License-Identifier: Apache-2.0
"""What is alike in all services: probes, metrics, names, reloads, the end."""

import re
import signal

import pytest

import contract
from pipeline import wait_for

SERVICES = ["router", "delayer", "archiver"]


@pytest.fixture(scope="module")
def pipeline(new_pipeline):
    return new_pipeline("service")


@pytest.fixture(scope="module")
def services(pipeline):
    return {service.name: service for service in pipeline.start(*SERVICES)}


@pytest.mark.parametrize("name", SERVICES)
def test_probes_answer(services, name):
    assert services[name].get("/healthz") == (200, "ok\n")
    assert services[name].get("/readyz") == (200, "ready\n")
    assert services[name].get("/nothing")[0] == 404


@pytest.mark.parametrize("name", SERVICES)
def test_metrics_are_prometheus_text(services, name):
    status, text = services[name].get("/metrics")
    assert status == 200
    names = {re.match(r"\w+", line)[0] for line in services[name].samples()}
    typed = set(re.findall(r"^# TYPE (\w+) (?:counter|gauge|histogram)$", text, re.M))
    assert {re.sub(r"_(bucket|sum|count)$", "", n) if n not in typed else n for n in names} <= typed
    assert f'reprise_info{{service="reprise-{name}",' in text


def instances(service):
    return re.findall(r" started .* instance=(\S+)", service.log.read_text())


@pytest.mark.parametrize("name", SERVICES)
def test_a_killed_service_comes_back_under_its_name(services, name):
    service = services[name]
    service.kill()
    service.start().wait_ready()
    first, second = instances(service)
    assert first == second


def reload_with(pipeline, service, **config):
    """Writes the service's file anew and waits until the hangup was answered."""
    before = service.log.read_text()
    pipeline.config.update(config)
    pipeline.write_config(service.config, {service.name: {"listen": f"127.0.0.1:{service.port}"}})
    service.process.send_signal(signal.SIGHUP)

    def answer():
        return re.search(r"policies-reloaded|reload-refused", service.log.read_text()[len(before) :])

    return wait_for(answer, "an answer to the hangup")[0]


def fail_once(pipeline):
    """A task whose target and fate the default policy says; returns why it died."""
    task = contract.failed_task(None, key=None)
    pipeline.fail(task)
    return pipeline.dead_letter(task_id=task["task_id"])["reason"]


def test_a_hangup_brings_new_policies_and_a_bad_file_leaves_the_old(pipeline, services):
    assert fail_once(pipeline) == "NO_TARGET"
    never = {"default": {"retry": "never", "target": pipeline.create_target("handler")}}
    assert reload_with(pipeline, services["router"], policies=never) == "policies-reloaded"
    # The worker takes them up between two records.
    wait_for(lambda: fail_once(pipeline) == "NON_RETRYABLE", "a decision by the new policies")
    bad = {"default": {"retry": "sometimes"}}
    assert reload_with(pipeline, services["router"], policies=bad) == "reload-refused"
    assert "configuration-fault" in services["router"].log.read_text()
    assert fail_once(pipeline) == "NON_RETRYABLE"
    counted = services["router"].get("/metrics")[1]
    assert 'reprise_policy_reloads_total{result="loaded"} 1' in counted
    assert 'reprise_policy_reloads_total{result="refused"} 1' in counted
