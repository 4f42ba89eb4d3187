"""The page at `/` in a browser, Debian's Chromium: against the server and the model of this repository, and against models that say odd things."""

import json
import re
import subprocess

import pytest
from playwright.sync_api import expect

from conftest import MIRROR, MODEL, PATIENCE, ROOT, violations

TABS = ["chat", "graph", "playground", "server"]
# Code in all the places where a text could become markup.
HOSTILE = "<img src=x onerror=\"window.taken=1\"><script>window.taken=1</script> [a link](javascript:window.taken=1)\n\n<svg onload=window.taken=1>\n\n" + "`<b>code</b>` ![picture](http://elsewhere.example/x.png)"


def ask(page, text):
    page.get_by_label("Your question", exact=True).fill(text)
    page.keyboard.press("Enter")


def last_answer(page):
    return page.get_by_role("article", name="Answer of").last


def is_done(page):
    expect(page.get_by_role("button", name="Send")).to_be_visible(timeout=PATIENCE)


def test_a_chat_is_stopped_edited_and_goes_on_in_branches(server, open_page):
    page = open_page(server.url + "/")
    page.get_by_label("Model", exact=True).select_option(MODEL)
    page.get_by_role("button", name="Instructions and parameters").click()
    page.get_by_label("Temperature").fill("0")
    page.get_by_label("Further fields").fill('{"ignore_eos": true, "max_tokens": 1900}')
    page.get_by_role("button", name="Done").click()
    ask(page, "What is a side packet?")
    expect(last_answer(page)).to_contain_text("side packet")
    page.get_by_role("button", name="Stop the answer").click()
    expect(last_answer(page)).to_contain_text("You stopped this answer.")
    # What it took until then, as the server measured it.
    expect(last_answer(page).locator(".figures")).to_contain_text(re.compile(r"to first token.*tokens/s.*\d+ \+ \d+ tokens"))
    server.wait_until(server.is_idle, "the sequence ended with the answer")

    page.get_by_role("button", name="Instructions and parameters").click()
    page.get_by_label("Further fields").fill('{"max_tokens": 30}')
    page.get_by_label("Ask for the probabilities of tokens").check()
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Another answer").click()
    is_done(page)
    expect(last_answer(page)).to_contain_text("2 / 2")
    expect(last_answer(page)).to_contain_text("to first token")
    expect(last_answer(page)).to_contain_text("tokens/s")
    last_answer(page).get_by_role("button", name="Tokens").click()
    page.locator(".token").nth(1).hover()
    expect(page.locator(".token").nth(1).get_by_role("tooltip")).to_contain_text("%")
    page.get_by_role("button", name="Branch before").click()
    expect(last_answer(page)).to_contain_text("You stopped this answer.")

    page.get_by_role("article", name="Question").hover()
    page.get_by_role("button", name="Edit, on a new branch").click()
    page.get_by_role("article", name="Question").get_by_label("Question").fill("What is OpenVINO?")
    page.get_by_role("button", name="Ask on a new branch").click()
    is_done(page)
    expect(last_answer(page)).to_contain_text("OpenVINO")

    page.get_by_role("button", name="Export as curl or Python").click()
    command = page.locator("dialog pre").inner_text()
    page.keyboard.press("Escape")
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.rstrip().endswith("data: [DONE]")

    # What was said is in this browser, and only there.
    page.reload()
    page.get_by_role("complementary", name="Conversations").get_by_role("button", name="What is a side packet?", exact=True).click()
    expect(last_answer(page)).to_contain_text("OpenVINO")


def answer_with(page, events):
    """Answers the page's next questions with these events, all in one piece, as a fast server does."""
    body = "".join(f"event: {name}\n" * (name != "message") + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n" for name, data in events)
    page.route("**/v3/chat/completions?timings=1", lambda route: route.fulfill(content_type="text/event-stream", headers={"x-request-id": "r"}, body=body))


def test_figures_are_those_of_the_server_or_none(server, open_page):
    page = open_page(server.url + "/")
    chunk = {"choices": [{"index": 0, "delta": {"content": "Hello."}, "finish_reason": "length"}], "usage": {"prompt_tokens": 7, "completion_tokens": 101}}
    timings = {"prepare_ms": 1, "queue_ms": 2, "prefill_ms": 30, "decode_ms": 2000, "ttft_ms": 36, "total_ms": 2040}
    answer_with(page, [("message", chunk), ("message", "[DONE]"), ("timings", timings)])
    ask(page, "Hi")
    is_done(page)
    expect(last_answer(page).locator(".figures li")).to_have_text(["36 ms to first token", "50 tokens/s", "7 + 101 tokens", "Stopped at max tokens"])
    answer_with(page, [("message", chunk), ("message", "[DONE]")])
    ask(page, "Hi")
    is_done(page)
    expect(last_answer(page).locator(".figures li")).to_have_text(["7 + 101 tokens", "Stopped at max tokens"])


def test_wrong_parameters_are_refused_where_they_are_entered(server, open_page):
    page = open_page(server.url + "/")
    page.get_by_label("Model", exact=True).select_option("chat")
    page.get_by_role("button", name="Instructions and parameters").click()
    dialog = page.get_by_role("dialog")
    # What the server takes where nothing is entered.
    expect(dialog.get_by_label("Temperature")).to_have_attribute("placeholder", "default: 1")
    expect(dialog.get_by_label("Max tokens")).to_have_attribute("placeholder", "default: 2048")
    for label, wrong, right, said in [
        ("Further fields", "{]", "{}", "further"),
        ("Further fields", "[1]", "", "further"),
        ("Temperature", "warm", "0.5", "temperature"),
        # What the page does itself.
        ("Further fields", '{"n": 2}', "", "cannot have n"),
        ("Further fields", '{"model": "nope", "messages": []}', "", "cannot have messages, model"),
        ("Further fields", '{"stream": false}', "", "cannot have stream"),
        # What the server would refuse or not look at.
        ("Temperature", "9", "0.5", "between 0 and 2"),
        ("Further fields", '{"tools": 3}', "", "tools must be an array"),
        ("Further fields", '{"foo": 3}', "", "does not know foo"),
    ]:
        dialog.get_by_label(label).fill(wrong)
        dialog.get_by_role("button", name="Done").click()
        expect(dialog.get_by_role("alert")).to_contain_text(re.compile(said, re.IGNORECASE))
        dialog.get_by_label(label).fill(right)
    dialog.get_by_role("button", name="Done").click()
    expect(dialog).to_have_count(0)


def test_a_server_that_went_is_told_of_once_and_its_return_goes_on(scripted, open_page):
    server = scripted([{"text": "Hello."}])
    page = open_page(server.url + "/#/server")
    expect(page.get_by_role("heading", name="Engines")).to_be_visible()
    assert server.stop() == 0
    expect(page.locator(".gone")).to_contain_text("The server does not answer.")
    # A part that was not there before.
    page.get_by_role("link", name="Graph", exact=True).click()
    expect(page.get_by_role("main", name="Graph")).to_contain_text("when the server answers again")
    expect(page.get_by_role("alert")).to_have_count(1)
    page.get_by_role("link", name="Chat", exact=True).click()
    expect(page.get_by_role("alert")).to_have_count(1)
    expect(page.get_by_role("main", name="Chat")).not_to_contain_text("dynamically imported")
    page.get_by_role("link", name="Graph", exact=True).click()
    server.start()
    server.wait_until(server.is_ready, "ready")
    expect(page.get_by_role("button", name="Node llm, LLMCalculator")).to_be_visible()
    expect(page.locator(".gone")).to_have_count(0)
    page.get_by_role("link", name="Chat", exact=True).click()
    ask(page, "Hi")
    expect(last_answer(page)).to_contain_text("Hello.")


def test_a_server_that_goes_again_and_again_is_awaited_each_time(scripted, open_page):
    server = scripted([{"text": "Hello."}])
    page = open_page(server.url + "/")
    expect(page.get_by_label("Model", exact=True)).to_have_value("chat")
    there = [("Graph", "Node llm, LLMCalculator"), ("Playground", "Drawing"), ("Server", "Read the configuration again")]
    for tab, button in there:
        assert server.stop() == 0
        page.get_by_role("link", name=tab, exact=True).click()
        expect(page.get_by_role("main", name=tab)).to_contain_text("when the server answers again")
        server.start()
        server.wait_until(server.is_ready, "ready")
        expect(page.get_by_role("button", name=button)).to_be_visible()
    # The editor is a part of its own.
    page.get_by_role("link", name="Playground", exact=True).click()
    expect(page.locator(".cm-content")).to_be_visible()


def test_a_picture_is_shown_to_a_model_that_reads_it(start_server, open_page):
    demo = ROOT / "demos" / "tiny_vision"
    server = start_server(demo / "config.json")
    server.wait_until(server.is_ready, "ready")
    page = open_page(server.url + "/")
    page.get_by_role("button", name="Instructions and parameters").click()
    page.get_by_label("Temperature").fill("0")
    page.get_by_role("button", name="Done").click()
    page.get_by_label("Add an image").set_input_files(demo / "samples" / "circle.png")
    expect(page.get_by_role("img", name="Image 1")).to_be_visible()
    ask(page, "What shape is this?")
    expect(last_answer(page)).to_contain_text("A red circle.")


def test_what_a_model_says_stays_text(scripted, open_page):
    call = '<tool_call>{"name": "look", "arguments": {"at": "<img src=x onerror=window.taken=1>"}}</tool_call>'
    server = scripted([{"when": "call", "text": call}, {"when": "think", "text": f"<think>{HOSTILE}</think>Done."}, {"text": HOSTILE}])
    page = open_page(server.url + "/")
    ask(page, "speak <img src=x onerror=window.taken=1>")
    is_done(page)
    expect(last_answer(page)).to_contain_text("<script>window.taken=1</script>")
    expect(last_answer(page)).to_contain_text("<b>code</b>")
    expect(page.get_by_role("article", name="Question")).to_contain_text("<img src=x")
    ask(page, "think")
    is_done(page)
    expect(last_answer(page)).to_contain_text("Done.")
    assert page.locator(".messages :is(img, script, svg:not(.icon), b, iframe)").count() == 0
    assert page.locator('.messages a[href^="javascript"]').count() == 0
    assert page.evaluate("window.taken") is None


def test_a_graph_lives(server, open_page):
    page = open_page(f"{server.url}/#/graph/{MODEL.replace('/', '%2F')}")
    panel = page.get_by_role("complementary")
    expect(page.get_by_role("button", name="Node llm, LLMCalculator")).to_be_visible()
    page.get_by_role("button", name="Close the subgraph HttpLLMCalculator").click()
    expect(page.get_by_role("button", name="Node llm")).to_have_count(0)
    page.get_by_role("button", name="Subgraph llmexecutor").click()
    expect(page.locator(".live")).to_contain_text("live")

    page.get_by_role("button", name="Record the next 20 sessions").click()
    expect(page.get_by_role("button", name="Stop recording")).to_be_visible()
    # One request after the other, as a fast machine is done with one before the page looks.
    page.evaluate(
        """(body) => {
            window.leave = new AbortController();
            const { signal } = window.leave;
            const ask = () => fetch("/v3/chat/completions", { method: "POST", headers: { "content-type": "application/json" }, signal, body: JSON.stringify(body) });
            window.asked = (async () => { while (!signal.aborted) await (await ask()).text(); })().catch(() => "left");
        }""",
        {"model": MODEL, "stream": True, "ignore_eos": True, "max_tokens": 2000, "messages": [{"role": "user", "content": "Go on."}]},
    )
    expect(panel).to_contain_text("/v3/chat/completions")
    wire = page.get_by_role("button", name="Stream llmexecutor__tokens")
    wire.focus()
    page.keyboard.press("Enter")
    expect(panel.locator(".packets pre").first).to_contain_text("generated_tokens")
    panel.get_by_role("button", name="Pause").click()
    expect(panel.get_by_role("button", name="Go on")).to_be_visible()
    page.get_by_role("button", name="Node llm, LLMCalculator").press("Enter")
    expect(panel).to_contain_text("LLMCalculator in HttpLLMCalculator")
    expect(panel).to_contain_text("a call")
    expect(panel.locator("pre.written")).to_contain_text('models_path: "../../demos/tiny_chat"')
    page.evaluate("window.leave.abort(), window.asked")
    panel.get_by_role("button", name="Back to the sessions").click()
    # Recordings of yesterday are not those of today.
    expect(panel.locator(".sessions strong").last).to_have_text(re.compile(r"^\w+ \d+, 20\d\d, \d+:\d\d:\d\d"))
    panel.get_by_role("button", name="Waterfall of").first.click()
    expect(page.get_by_role("dialog").get_by_role("rowheader", name="llm")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Stop recording").click()
    expect(page.get_by_role("button", name="Record the next 20 sessions")).to_be_visible()


def test_a_graph_that_is_not_loaded_is_shown_and_loaded_by_a_button(start_server, tmp_path, open_page):
    (tmp_path / "model.script.json").write_text(json.dumps({"replies": [{"text": "Hello."}]}))
    chat = (ROOT / "graphs" / "chat" / "graph.pbtxt").read_text().replace("../../demos/tiny_chat", "../model.script.json")
    entries = []
    for name, text in {"broken": chat.replace("model.script", "missing.script"), "chat": chat, "other": chat, "same": MIRROR}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "graph.pbtxt").write_text(text)
        entries.append({"name": name, "base_path": name, "load": "on_demand", "optional": True})
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": entries}))
    server = start_server(config)
    server.wait_until(server.is_ready, "ready")
    states = lambda: {graph["name"]: graph["status"]["value"] for graph in json.loads(server.get("/v3/graphs")[1])["graphs"]}

    page = open_page(server.url + "/")
    models = page.get_by_label("Model", exact=True).locator("option")
    expect(models).to_have_text(["chat · unloaded", "other · unloaded"])
    failed = []
    page.on("response", lambda response: failed.append(response.url) if response.status >= 400 else None)
    page.goto(server.url + "/#/graph/chat")
    said = page.locator(".unloaded")
    expect(page.get_by_role("button", name="Node llm, LLMCalculator")).to_be_visible()
    expect(said).to_contain_text("This graph is not loaded.")
    assert states() == {"broken": "failed", "chat": "unloaded", "other": "unloaded", "same": "unloaded"}
    said.get_by_role("button", name="Load it").click()
    expect(page.locator(".live")).to_contain_text("live")
    expect(said).to_have_count(0)
    assert states()["chat"] == "loaded"

    page.get_by_role("link", name="Playground", exact=True).click()
    page.get_by_label("Begin with").select_option("other")
    run = page.get_by_role("button", name="Run")
    expect(run).to_be_disabled()
    said.get_by_role("button", name="Load it").click()
    expect(said).to_have_count(0)
    run.click()
    expect(page.get_by_role("region", name="Try it").get_by_role("heading", name="Outputs")).to_be_visible()

    # Somebody's question is as good as the button.
    page.goto(server.url + "/#/graph/same")
    expect(said).to_contain_text("This graph is not loaded.")
    assert server.get("/v2/models/same")[0] == 200
    expect(page.locator(".live")).to_contain_text("live")
    assert failed == []
    page.goto(server.url + "/#/graph/broken")
    expect(said).to_contain_text("missing.script.json")
    page.goto(server.url + "/#/server")
    expect(page.get_by_role("row", name="broken").locator(".state")).to_have_text("failed")
    page.goto(server.url + "/")
    expect(models).to_have_text(["chat", "other"])


def test_the_number_of_sessions_is_that_of_the_list(server, open_page):
    """Whatever the events say: two figures of two moments beside each other contradict each other."""
    page = open_page(server.url + "/")
    sessions = []
    page.route("**/v3/sessions", lambda route: route.fulfill(json={"sessions": sessions, "total": len(sessions)}))
    nodes = [{"name": "llm", "calls": 1_234_567, "errors": 0, "busy_us": 1, "states": {}}, {"name": "reasoning_parser", "calls": 13_005, "errors": 0, "busy_us": 1, "states": {}}]
    snapshot = {"seq": 0, "at_ms": 0, "sessions": 3, "nodes": nodes, "edges": []}
    page.route("**/v3/graphs/chat/events", lambda route: route.fulfill(content_type="text/event-stream", body=f"event: snapshot\ndata: {json.dumps(snapshot)}\n\n"))
    page.goto(server.url + "/#/graph/chat")
    expect(page.get_by_text("No request is in the graph now.")).to_be_visible()
    assert "3 sessions" not in page.locator(".live").inner_text()
    # Large counts are short, and nothing is written over anything.
    for name, count in [("llm", "1.2M"), ("reasoning_parser", "13K")]:
        box = page.get_by_role("button", name=f"Node {name}")
        expect(box.locator(".figure")).to_have_text(count)
        kind, figure = (box.locator(part).bounding_box() for part in [".soft:not(.figure)", ".figure"])
        assert kind["x"] + kind["width"] <= figure["x"], name
    sessions.append({"id": "s", "graph": "chat", "label": "one", "age_ms": 5, "stalled": False, "why": "waits"})
    expect(page.get_by_text("No request is in the graph now.")).to_have_count(0)
    expect(page.get_by_role("complementary", name="Sessions").locator("li").first).to_contain_text("one")
    page.unroute("**/v3/graphs/chat/events")
    expect(page.locator(".live")).to_have_text("live, 1 session")


def test_a_text_is_checked_while_it_is_typed(server, open_page):
    page = open_page(server.url + "/#/playground")
    expect(page.get_by_text("no mistake found")).to_be_visible()
    page.get_by_role("button", name="Drawing").click()
    expect(page.get_by_role("button", name="PassThroughCalculator")).to_be_visible()
    page.get_by_role("textbox", name="Text of the graph").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("nodee { }")
    expect(page.get_by_role("list", name="Diagnostics")).to_contain_text("has no field nodee")
    expect(page.get_by_text("1 error")).to_be_visible()


def test_typing_goes_on_when_the_editor_takes_the_place_of_the_plain_field(server, open_page):
    held = []
    page = open_page(server.url + "/#/")
    page.route("**/editor-*.js", lambda route: held.append(route))
    page.goto(server.url + "/#/playground")
    page.get_by_role("textbox", name="Text of the graph").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("no")
    assert len(held) == 1
    held[0].continue_()
    expect(page.locator(".editor")).to_be_visible()
    page.keyboard.type("dee { }")
    expect(page.get_by_role("list", name="Diagnostics")).to_contain_text("has no field nodee")


def test_a_text_is_tried_beside_the_served_graph(server, open_page):
    page = open_page(server.url + "/#/playground")
    page.get_by_role("button", name="Run").click()
    tried = page.get_by_role("region", name="Try it")
    expect(tried.get_by_role("heading", name="Outputs")).to_be_visible()
    expect(tried.locator("pre")).to_have_text("1")
    page.get_by_label("Begin with").select_option("chat")
    page.get_by_label("Compare with the served chat").check()
    page.get_by_label("Body").fill(json.dumps({"model": "chat", "messages": [{"role": "user", "content": "Say this is a test"}], "max_tokens": 20}))
    page.get_by_role("button", name="Run").click()
    expect(tried.get_by_text("This is a test.").first).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("the server runs without")).to_be_visible()


def test_a_text_is_saved_where_the_server_lets_it(scripted, open_page, tmp_path):
    server = scripted([{"text": "Hello."}], ["--allow_graph_edits", "--file_system_poll_wait_seconds", "0"])
    file = tmp_path / "chat" / "graph.pbtxt"
    written = file.read_text()
    page = open_page(server.url + "/#/playground")
    page.get_by_label("Begin with").select_option("chat")
    text = page.get_by_role("textbox", name="Text of the graph")
    expect(text).to_contain_text("HTTP_REQUEST_PAYLOAD:http_request")
    text.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("# Seen by somebody.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    assert file.read_text() == written + "# Seen by somebody."
    text.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("\nnodee { }")
    expect(page.get_by_text("1 error")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    note = page.locator(".bar-note")
    expect(note).to_contain_text("does not compile")
    assert file.read_text() == written + "# Seen by somebody."
    # What was wrong can be put right.
    text.click()
    page.keyboard.press("Control+End")
    for _ in "nodee { }":
        page.keyboard.press("Backspace")
    page.keyboard.type("# Twice.")
    expect(page.get_by_text("no mistake found")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(note).to_contain_text("Saved.")
    assert file.read_text() == written + "# Seen by somebody.\n# Twice."


def test_names_and_packets_of_a_graph_stay_text(server, open_page):
    """What the server says of a graph is somebody else's text, too, whatever names it allows today."""
    name = "<img src=x onerror=window.taken=1>"
    port = {"port": "A", "name": name, "ty": name, "back_edge": False}
    node = {"name": name, "calculator": name, "within": [], "place": name, "policy": "Default", "runs": "inline", "options": name, "inputs": [port], "outputs": [], "side_inputs": [], "side_outputs": []}
    plan = {"nodes": [node], "inputs": [name], "outputs": [name], "side_inputs": [], "side_outputs": []}
    session = {"id": "s", "graph": name, "label": name, "age_ms": 1, "stalled": True, "why": name, "nodes": []}
    packet = {"session": "s", "stream": name, "timestamp": 0, "type": name, "payload": name, "truncated": False}
    page = open_page(server.url + "/")
    told = {
        "/v3/graphs": {"graphs": [{"name": name, "version": None, "state": "AVAILABLE", "required": True, "sessions": 1}]},
        "/v3/sessions": {"sessions": [session]},
        "/v3/sessions/s/why": {"id": "s", "text": name, "waits": [{"node": name, "reason": name, "root": True}]},
    }

    def answer(route):
        path = route.request.url.removeprefix(server.url).split("?")[0]
        if path.endswith("/tap"):
            route.fulfill(content_type="text/event-stream", body=f"event: packet\ndata: {json.dumps(packet)}\n\n")
        elif path in told:
            route.fulfill(json=told[path])
        elif path.startswith("/v3/graphs/") and path.count("/") == 3:
            route.fulfill(json={"name": name, "version": None, "file": name, "plan": plan})
        else:
            route.fulfill(status=404, json={"error": {"message": name}})

    page.route("**/v3/graphs**", answer)
    page.route("**/v3/graphs/**", answer)
    page.route("**/v3/sessions**", answer)
    page.route("**/v3/sessions/**", answer)
    page.route("**/v3/calculators/**", answer)
    page.goto(server.url + "/#/graph")
    expect(page.get_by_role("alert")).to_contain_text(name)
    page.get_by_role("button", name="Node <img").click()
    expect(page.get_by_role("complementary")).to_contain_text(f"Everything waits for it: {name}")
    expect(page.locator("pre.written")).to_have_text(name)
    page.get_by_role("button", name=f"Tap {name}").first.click()
    expect(page.locator(".packets pre").first).to_have_text(name)
    assert page.locator("main :is(img, script, iframe)").count() == 0
    assert page.evaluate("window.taken") is None


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_nothing_and_the_console_is_empty(server, open_page, theme, width):
    page = open_page(server.url + "/", color_scheme=theme, viewport={"width": width, "height": 900})
    said = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    ask(page, "What is a side packet?")
    is_done(page)
    for tab in TABS:
        page.goto(f"{server.url}/#/{tab}")
        expect(page.get_by_role("main", name=tab.title())).not_to_be_empty()
        expect(page.locator(".loading")).to_have_count(0)
        if tab == "playground":
            # A text that is longer than its place.
            page.get_by_label("Begin with").select_option("chat")
            expect(page.get_by_role("textbox", name="Text of the graph")).to_contain_text("HTTP_REQUEST_PAYLOAD")
        assert violations(page) == [], f"{tab}, {theme}, {width}"
    assert said == []


def test_a_phone_shows_everything_in_its_width(server, open_page):
    page = open_page(server.url + "/", viewport={"width": 360, "height": 740}, has_touch=True)
    for tab in TABS:
        page.get_by_role("link", name=tab.title(), exact=True).click()
        expect(page.get_by_role("main", name=tab.title())).not_to_be_empty()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, tab


# What a finger hits; the boxes and wires of a drawing grow with it.
TARGETS = """() => [...document.querySelectorAll("button, select, textarea, summary, input, nav a, header a")]
    .filter((each) => each.checkVisibility() && !each.matches(".hidden, .skip"))
    .map((each) => [each.outerHTML.slice(0, 100), (each.type === "checkbox" ? each.closest("label") : each).getBoundingClientRect()])
    .filter(([, { width, height }]) => width < 44 || height < 44)
    .map(([html, { width, height }]) => `${width} x ${height}: ${html}`)"""


def test_a_phone_has_large_targets_and_a_whole_drawing(server, open_page):
    page = open_page(server.url + "/", viewport={"width": 390, "height": 844}, has_touch=True)
    ask(page, "What is a side packet?")
    is_done(page)
    for tab in TABS:
        page.get_by_role("link", name=tab.title(), exact=True).click()
        expect(page.get_by_role("main", name=tab.title())).not_to_be_empty()
        expect(page.locator(".loading")).to_have_count(0)
        assert page.evaluate(TARGETS) == [], tab
    page.get_by_role("link", name="Chat", exact=True).click()
    page.get_by_role("button", name="Instructions and parameters").click()
    assert page.evaluate(TARGETS) == []
    page.keyboard.press("Escape")
    page.goto(server.url + "/#/graph/chat")
    for _ in ["as it begins", "after Fit"]:
        place = page.get_by_role("group", name="Drawing of the graph").bounding_box()
        zoom = page.get_by_role("group", name="Zoom").bounding_box()
        assert place["y"] + place["height"] <= zoom["y"] + 1
        for box in page.locator("svg .box").all():
            at = box.bounding_box()
            assert place["x"] <= at["x"] and at["x"] + at["width"] <= place["x"] + place["width"]
            assert place["y"] <= at["y"] and at["y"] + at["height"] <= place["y"] + place["height"]
        page.get_by_role("button", name="Larger").click()
        page.get_by_role("button", name="Fit").click()


def test_a_phone_shows_why_a_graph_failed(server, open_page):
    page = open_page(server.url + "/", viewport={"width": 390, "height": 844})
    reason = "graph.pbtxt:12:3: the model file does not exist, or is no file that can be read"
    graph = {"name": "organization/a-model-with-a-long-name", "state": "FAILED", "required": True, "open_sessions": 0, "jobs_waiting": 0, "refused": 7, "reason": reason}

    def answer(route):
        told = route.fetch().json()
        route.fulfill(json={**told, "graphs": [graph, *told["graphs"]]})

    page.route("**/v3/status", answer)
    page.goto(server.url + "/#/server")
    table = page.get_by_role("group", name="Table of graphs")
    row = table.get_by_role("row").filter(has_text=reason)
    expect(row).to_contain_text("failed")
    for part in [table.get_by_text(reason), row.locator("[data-label=Refused]")]:
        at = part.bounding_box()
        assert at["x"] >= 0 and at["x"] + at["width"] <= 390
    assert table.evaluate("it => it.scrollWidth <= it.clientWidth")


def test_a_phone_shows_names_and_times_of_a_waterfall(server, open_page):
    page = open_page(server.url + "/#/graph/chat", viewport={"width": 390, "height": 844})
    page.get_by_role("button", name=re.compile("Record the next")).click()
    expect(page.get_by_role("button", name="Stop recording")).to_be_visible()
    question = {"model": "chat", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
    page.evaluate("async (body) => (await fetch('/v3/chat/completions', {method: 'POST', body: JSON.stringify(body)})).text()", question)
    page.get_by_role("button", name="Waterfall of").first.click()
    waterfall = page.get_by_role("group", name="Waterfall")
    expect(waterfall).to_be_visible()
    assert waterfall.evaluate("it => it.scrollWidth <= it.clientWidth")
    for name in waterfall.locator("tbody th").all():
        assert name.bounding_box()["height"] < 50, name.inner_text()
    for part in waterfall.locator(".time span, svg").all():
        at = part.bounding_box()
        assert at["x"] >= 0 and at["x"] + at["width"] <= 390
    assert waterfall.locator("svg").first.bounding_box()["width"] > 250
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Stop recording").click()
    expect(page.get_by_role("button", name="Record the next 20 sessions")).to_be_visible()


# Controls that are disabled and do not say why: a title that repeats the name is no reason.
WITHOUT_REASON = """() => [...document.querySelectorAll(":disabled")]
    .filter((each) => each.checkVisibility() && (each.title || each.ariaLabel) === each.ariaLabel)
    .map((each) => each.outerHTML.slice(0, 200))"""


def test_every_disabled_control_says_why(server, open_page):
    page = open_page(server.url + "/")
    disabled = page.locator(":disabled")
    page.get_by_label("Model", exact=True).select_option(MODEL)
    expect(page.get_by_role("button", name="Send")).to_have_attribute("title", "Write a question first")
    assert disabled.count() >= 2
    assert page.evaluate(WITHOUT_REASON) == []
    ask(page, "What is a side packet?")
    is_done(page)
    page.get_by_role("button", name="Another answer").click()
    is_done(page)
    expect(page.get_by_role("button", name="Branch after")).to_be_disabled()
    page.get_by_role("article", name="Question").hover()
    page.get_by_role("button", name="Edit, on a new branch").click()
    page.get_by_role("article", name="Question").get_by_label("Question").fill("")
    expect(page.get_by_role("button", name="Ask on a new branch")).to_be_disabled()
    assert page.evaluate(WITHOUT_REASON) == []
    page.goto(server.url + "/#/playground")
    expect(page.get_by_role("button", name="Save")).to_have_attribute("title", re.compile("served graph"))
    assert page.evaluate(WITHOUT_REASON) == []
    page.goto(server.url + "/docs")
    form = page.locator("details[id='get-/v3/graphs/{name}/tap']")
    form.locator("summary").click()
    form.locator("input").first.fill("")
    expect(form.get_by_role("button", name="Send")).to_have_attribute("title", re.compile("Fill in .*name"))
    assert page.evaluate(WITHOUT_REASON) == []
    # In the states that were not seen here, too: one function disables.
    sources = [file for file in (ROOT / "web" / "src").rglob("*.tsx") if file.name != "icons.tsx"]
    direct = [line.strip() for file in sources for line in file.read_text().splitlines() if re.search(r"<(button|select|input|textarea)[^>]* disabled", line)]
    assert direct == []


def test_the_server_tab_shows_engines_and_reads_the_configuration_again(server, open_page):
    page = open_page(server.url + "/#/server")
    engine = page.get_by_role("region", name="Engine of tiny-chat")
    expect(engine).to_contain_text("of 131,072")
    expect(engine.get_by_text("Nothing yet since this tab was opened")).to_have_count(2)
    # Nothing but what this tab asks itself.
    expect(page.locator(".page-head")).to_contain_text(", 0 requests open.")
    page.get_by_role("button", name="Read the configuration again").click()
    expect(page.get_by_text("Read again: nothing has changed.")).to_be_visible()


def test_what_is_wrong_with_a_new_configuration_is_shown(scripted, open_page, tmp_path):
    server = scripted([{"text": "Hello."}], ["--file_system_poll_wait_seconds", "0"])
    with (tmp_path / "chat" / "graph.pbtxt").open("a") as graph:
        graph.write("nodee { }\n")
    page = open_page(server.url + "/#/server")
    page.get_by_role("button", name="Read the configuration again").click()
    expect(page.locator(".diagnostics")).to_contain_text("has no field `nodee`")
    expect(page.locator(".diagnostics")).to_contain_text("did you mean `node`?")


def test_a_keyboard_gets_everywhere(server, open_page):
    page = open_page(server.url + "/#/server")
    expect(page.get_by_role("heading", name="Engines")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    names = []
    for _ in range(8):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent || document.activeElement.ariaLabel"))
    assert {"Chat", "Graph", "Playground", "Server", "API", "Keys"} <= set(names)
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.goto(server.url + "/#/chat")
    expect(page.get_by_label("Your question", exact=True)).to_be_focused()


def test_keys_are_asked_for_and_kept_in_the_tab(scripted, open_page, tmp_path):
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [{"name": "a", "key": "for-chats"}, {"name": "b", "key": "for-operators", "scopes": ["admin"]}]}))
    server = scripted([{"text": "Hello."}], ["--api_key_file", str(tmp_path / "keys.json")])
    page = open_page(server.url + "/")
    expect(page.get_by_role("alert")).to_contain_text("This server asks for an API key")
    page.get_by_role("button", name="Keys").click()
    page.get_by_label("API key, for chats").fill("for-chats")
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_label("Model", exact=True)).to_have_value("chat")
    ask(page, "Hi")
    expect(last_answer(page)).to_contain_text("Hello.")
    page.get_by_role("link", name="Server").click()
    expect(page.get_by_role("main")).to_contain_text("a management key (scope `metrics` or `admin`)")
    page.get_by_role("button", name="Enter a key").click()
    page.get_by_label("Management key").fill("for-operators")
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Engines")).to_be_visible()
    assert page.evaluate("JSON.stringify(localStorage)").count("for-") == 0


def test_no_web_leaves_the_page_out(start_server, tmp_path):
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "graph.pbtxt").write_text(MIRROR)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": [{"name": "mirror", "base_path": "mirror"}]}))
    server = start_server(config, flags=["--no_web"])
    server.wait_until(server.is_ready, "ready")
    assert server.get("/")[0] == 405
    assert server.get("/page/main.js")[0] == 404
