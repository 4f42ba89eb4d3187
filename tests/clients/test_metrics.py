"""What parsers of Prometheus make of `/metrics`: both of `prometheus-client`, each for its own format."""

import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from conftest import MODEL


def scrape(server, accept):
    request = urllib.request.Request(f"{server.url}/metrics", headers={"accept": accept})
    with urllib.request.urlopen(request, timeout=30) as response:
        return response.headers["content-type"], response.read().decode()


@pytest.fixture(scope="module")
def used(server):
    """The server after an answer, so that there is something to count."""
    body = f'{{"model": "{MODEL}", "prompt": "Hello", "max_tokens": 2}}'.encode()
    request = urllib.request.Request(f"{server.url}/v1/completions", body, {"content-type": "application/json"})
    urllib.request.urlopen(request, timeout=60).close()
    return server


def test_the_text_format(used):
    content_type, text = scrape(used, "*/*")
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in read_text(text)}
    assert families["graphmill_requests"].type == "counter"
    assert families["graphmill_build_info"].type == "gauge"
    assert families["graphmill_request_duration_seconds"].type == "histogram"
    assert families["vllm:num_requests_running"].type == "gauge"


def test_openmetrics(used):
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
    content_type, text = scrape(used, accept)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in read_openmetrics(text)}
    assert families["graphmill_build"].type == "info"
    assert families["graphmill_request_duration_seconds"].unit == "seconds"
    of_text = {sample.name for family in read_text(scrape(used, "")[1]) for sample in family.samples}
    assert {sample.name for family in families.values() for sample in family.samples} == of_text
