"""schemathesis against the server's own OpenAPI document, with every check: what fits a schema is accepted, what does not is refused, and no
request gets a 5xx or a status that the document does not name. And the page of `/docs` in a browser."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import urllib.request

import pytest
from playwright.sync_api import expect

from conftest import MODEL, ROOT, violations

SCHEMATHESIS = pathlib.Path(sys.executable).with_name("schemathesis")
# For longer runs: 50 make some 4,000 cases.
EXAMPLES = os.environ.get("GRAPHMILL_OPENAPI_EXAMPLES", "50")


@pytest.fixture
def quick(scripted):
    """A server whose model follows a script: what is made of thousands of odd requests costs nothing."""
    return scripted([{"text": "Hello there."}])


# What no schema describes: the playground takes a graph, transcriptions a file of sound, and runs the tensors of their graph.
BEYOND = ["/v3/playground", "/v3/audio/transcriptions", "/v2/models/{name}/infer"]
OTHERS = [word for path in BEYOND for word in ("--exclude-path", path)]
THESE = [word for path in BEYOND for word in ("--include-path", path)]


@pytest.mark.parametrize("paths", [OTHERS, [*THESE, "--exclude-checks", "positive_data_acceptance"]])
def test_schemathesis(quick, tmp_path, paths):
    command = [
        SCHEMATHESIS, "run", quick.url + "/openapi.json", "--max-examples", EXAMPLES, "--seed", "1",
        "--phases", "coverage,fuzzing", "--request-timeout", "60", "--generation-database", "none", "--no-color", *paths,
        # These go on until their viewer leaves, others have no graph left, and to POST to `/` is TGI's, whose own document has it.
        "--exclude-path-regex", "/(events|tap|unload)$|^/$",
    ]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    quick.wait_until(quick.is_idle, "nothing left of the requests")


def test_the_document_names_what_is_served(server):
    status, body = server.get("/openapi.json")
    document = json.loads(body)
    assert status == 200 and document["openapi"].startswith("3.1")
    assert '"enum":[]' not in body, "generators refuse it"
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


@pytest.mark.parametrize("flags", [[], ["--allow_graph_edits"]], ids=["served", "edited"])
def test_what_every_form_is_filled_with_succeeds(start_server, open_page, tmp_path, flags):
    for part in ("config.json", "graphs", "demos"):
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, tmp_path / part)
    server = start_server(tmp_path / "config.json", flags=["--any_model", "chat", *flags])
    server.wait_until(server.is_ready, "ready")
    page = open_page(server.url + "/docs")
    results = send_all(page)
    lacks = {name for name, result in results.items() if result == "lacks"}
    assert lacks == {"post-/v3/audio/transcriptions", "post-/v2/models/{name}/infer"}
    # They need what nobody but the reader knows.
    needs = {name: result for name, result in results.items() if isinstance(result, list)}
    sessions = {f"get-/v3/sessions/{{id}}/{what}": ["id"] for what in ("why", "trace", "recording")}
    texts = {"get-/v3/graphs/{name}/tap": ["stream"], "put-/v3/graphs/{name}/file": ["Body"]}
    models = {f"post-/models/{change}": ["Body"] for change in ("load", "unload")}
    assert needs == {"delete-/v3/requests/{id}": ["id"], **sessions, **texts, **models}
    answered = {name: result for name, result in results.items() if result != "lacks" and not isinstance(result, list)}
    assert {name: result for name, result in answered.items() if not result.startswith("2")} == {}


def test_a_run_is_shown_for_a_graph_of_tensors(tensors, open_page):
    results = send_all(open_page(f"http://{tensors.rest}/docs"))
    assert results["post-/v2/models/{name}/infer"].startswith("200")
    assert results["post-/v3/chat/completions"] == "lacks"


def send_all(page):
    """Presses "Send" in every form as it is filled: the status, or "lacks" where the form says that the server cannot, or the names of what has to be filled in."""
    expect(page.locator("details").first).to_be_visible()
    results = {}
    names = page.locator("details").evaluate_all("all => all.map((each) => each.id)")
    # What unloads graphs comes last.
    last = ["post-/sleep", "post-/v2/repository/models/{name}/unload"]
    for name in sorted(names, key=lambda name: name in last):
        operation = page.locator(f'details[id="{name}"]')
        operation.locator("summary").click()
        form = operation.get_by_role("form")
        send = form.get_by_role("button", name="Send")
        expect(send).to_be_visible()
        if form.get_by_role("note").count():
            results[name] = "lacks"
        elif send.is_disabled():
            labels = form.locator("label").filter(has_text="required").all()
            results[name] = [label.inner_text().split()[0] for label in labels if label.locator("input").count() == 0 or label.locator("input").input_value() == ""]
        else:
            send.click()
            expect(form.get_by_role("status")).not_to_have_text("…")
            results[name] = form.get_by_role("status").inner_text()
            if name.endswith("/events"):
                form.get_by_role("button", name="Stop").click()
            expect(send).to_be_enabled()
        operation.locator("summary").click()
    return results


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
