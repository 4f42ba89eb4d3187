"""schemathesis against the server's own OpenAPI document, with every check: what fits a schema is accepted, what does not is refused, and no
request gets a 5xx or a status that the document does not name. And the page of `/docs` in a browser."""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

import pytest
from playwright.sync_api import expect

from conftest import MODEL, violations

SCHEMATHESIS = pathlib.Path(sys.executable).with_name("schemathesis")
# For longer runs: 50 make some 4,000 cases.
EXAMPLES = os.environ.get("GRAPHMILL_OPENAPI_EXAMPLES", "50")


@pytest.fixture
def quick(scripted):
    """A server whose model follows a script: what is made of thousands of odd requests costs nothing."""
    return scripted([{"text": "Hello there."}])


# What no schema describes: the playground takes a graph, and transcriptions a file of sound.
BEYOND = ["/v3/playground", "/v3/audio/transcriptions"]
OTHERS = [word for path in BEYOND for word in ("--exclude-path", path)]
THESE = [word for path in BEYOND for word in ("--include-path", path)]


@pytest.mark.parametrize("paths", [OTHERS, [*THESE, "--exclude-checks", "positive_data_acceptance"]])
def test_schemathesis(quick, tmp_path, paths):
    command = [
        SCHEMATHESIS, "run", quick.url + "/openapi.json", "--max-examples", EXAMPLES, "--seed", "1",
        "--phases", "coverage,fuzzing", "--request-timeout", "60", "--generation-database", "none", "--no-color", *paths,
        # These go on until their viewer leaves.
        "--exclude-path-regex", "/(events|tap)$",
    ]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    quick.wait_until(quick.is_idle, "nothing left of the requests")


def test_the_document_names_what_is_served(server):
    status, body = server.get("/openapi.json")
    document = json.loads(body)
    assert status == 200 and document["openapi"].startswith("3.1")
    chat = document["paths"]["/v3/chat/completions"]["post"]
    schema = chat["requestBody"]["content"]["application/json"]["schema"]
    assert MODEL in schema["properties"]["model"]["enum"]
    assert schema["required"] == ["model", "messages"]
    assert {"200", "400", "404", "413", "429", "503"} <= set(chat["responses"])


def test_models_are_named_where_they_answer(server):
    paths = json.loads(server.get("/openapi.json")[1])["paths"]
    content = {path: paths[path]["post"]["requestBody"]["content"]["application/json"] for path in ["/v3/chat/completions", "/v3/embeddings", "/v3/rerank"]}
    names = {path: each["schema"]["properties"]["model"]["enum"] for path, each in content.items()}
    assert names["/v3/embeddings"] == ["graphmill/tiny-embed"]
    assert names["/v3/rerank"] == ["graphmill/tiny-rerank"]
    assert sorted(names["/v3/chat/completions"]) == ["chat", MODEL]
    for path, each in content.items():
        body = json.dumps(each["example"]).encode()
        request = urllib.request.Request(server.url + path, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 200, path


def opened(page, method, path):
    """The form of an operation, which is opened."""
    operation = page.locator(f'details[id="{method}-{path}"]')
    operation.locator("summary").click()
    return operation.get_by_role("form")


def answer_of(form, status="200 OK"):
    form.get_by_role("button", name="Send").click()
    expect(form.get_by_role("status")).to_have_text(status)
    expect(form.get_by_role("button", name="Stop")).to_have_count(0)
    return form.locator("pre")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_lists_all_operations_and_calls_one_of_each_kind(scripted, open_page, tmp_path, theme, width):
    server = scripted([{"text": "Hello there."}], ["--allow_graph_edits", "--file_system_poll_wait_seconds", "0"])
    page = open_page(server.url + "/docs", color_scheme=theme, viewport={"width": width, "height": 900})
    said = []
    page.on("console", lambda message: said.append(message.text))
    paths = json.loads(server.get("/openapi.json")[1])["paths"]
    listed = {f"{method}-{path}" for path, methods in paths.items() for method in methods}
    expect(page.locator("details")).to_have_count(len(listed))
    assert set(page.locator("details").evaluate_all("all => all.map((each) => each.id)")) == listed

    expect(answer_of(opened(page, "get", "/v3/models"))).to_contain_text('"id": "chat"')
    expect(answer_of(opened(page, "post", "/v3/check"))).to_contain_text('"diagnostics": []')
    form = opened(page, "post", "/v3/chat/completions")
    body = json.loads(form.get_by_label("Body").input_value())
    form.get_by_label("Body").fill(json.dumps({**body, "stream": True}))
    expect(answer_of(form)).to_contain_text("data: [DONE]")
    form = opened(page, "put", "/v3/graphs/{name}/file")
    file = tmp_path / "chat" / "graph.pbtxt"
    form.get_by_label("Body").fill(file.read_text() + "# Seen.\n")
    expect(answer_of(form)).to_contain_text('"name": "chat"')
    assert file.read_text().endswith("# Seen.\n")
    form = opened(page, "get", "/v3/graphs/{name}/events")
    form.get_by_role("button", name="Send").click()
    expect(form.locator("pre")).to_contain_text("event: snapshot")
    form.get_by_role("button", name="Stop").click()
    expect(form.get_by_role("button", name="Send")).to_be_enabled()
    expect(form.locator("pre")).to_contain_text("event: snapshot")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert said == []

    page.get_by_label("Find operations").fill("rerank")
    expect(page.locator("details")).to_have_count(1)


def test_the_page_shows_every_form_without_an_error(server, open_page):
    page = open_page(server.url + "/docs")
    said = []
    page.on("console", lambda message: said.append(message.text))
    expect(page.locator("details").first).to_be_visible()
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    expect(page.get_by_role("form")).to_have_count(page.locator("details").count())
    assert violations(page) == []
    assert said == []


def test_the_page_asks_for_a_key(scripted, open_page, tmp_path):
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [{"name": "a", "key": "for-chats"}, {"name": "b", "key": "for-operators", "scopes": ["admin"]}]}))
    server = scripted([{"text": "Hello there."}], ["--api_key_file", str(tmp_path / "keys.json")])
    page = open_page(server.url + "/docs")
    expect(page.get_by_role("alert")).to_contain_text("This server asks for a key")
    page.get_by_role("button", name="Keys").click()
    page.get_by_label("API key").fill("for-chats")
    page.get_by_label("Management key").fill("for-operators")
    page.get_by_role("button", name="Done").click()
    expect(answer_of(opened(page, "post", "/v3/chat/completions"))).to_contain_text("Hello there.")
    expect(answer_of(opened(page, "get", "/v3/status"))).to_contain_text('"engines"')
    expect(answer_of(opened(page, "get", "/v3/models"))).to_contain_text('"id": "chat"')


def test_the_page_needs_nothing_from_elsewhere(scripted):
    server = scripted([{"text": "Hello there."}], ["--no_web"])
    status, page = server.get("/docs")
    assert status == 200 and "/openapi.json" in page
    assert "src=\"http" not in page and "/page/" not in page
