"""The playground of the page at `/`: what it is filled with runs as it is, for every graph of this repository."""

import json
import tomllib

import pytest
from playwright.sync_api import expect

from conftest import MIRROR, ROOT

TENSORS = """
input_stream: "image"
input_stream: "FLAG:flag"
output_stream: "same_image"
output_stream: "same_flag"
node {
  calculator: "PassThroughCalculator"
  input_stream: "image"
  input_stream: "flag"
  output_stream: "same_image"
  output_stream: "same_flag"
}
graph_options {
  [type.googleapis.com/graphmill.TensorOptions] {
    input { name: "image" datatype: UINT8 shape: [-1, 8, 8, 3] }
    input { name: "flag" datatype: BOOL shape: [] }
  }
}
"""


def shipped():
    """All graphs of `graphs/` and of the demos whose nodes the program has, by the names that they are served by."""
    of_demos = {"digits": "demos/digits", "topics": "demos/text_classifier", "graphmill/tiny-vision": "demos/tiny_vision"}
    folders = {folder.name: f"graphs/{folder.name}" for folder in sorted((ROOT / "graphs").iterdir()) if (folder / "graph.pbtxt").exists()}
    entries = [{"name": name, "base_path": str(ROOT / folder)} for name, folder in (folders | of_demos).items()]
    batched = {"name": "topics-batched", "base_path": str(ROOT / "demos" / "text_classifier"), "graph_path": "batched.pbtxt"}
    return [*entries, batched]


@pytest.fixture
def everything(start_server, tmp_path):
    """A server of them, and of graphs of tensors."""
    entries = shipped()
    for name, text in {"same": MIRROR, "tensors": TENSORS}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "graph.pbtxt").write_text(text)
        entries.append({"name": name, "base_path": name})
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": entries}))
    server = start_server(config)
    server.wait_until(server.is_ready, "ready, with all graphs", seconds=120)
    return server


def test_the_first_run_of_every_graph_is_answered(everything, open_page):
    page = open_page(everything.url + "/#/playground")
    names = page.get_by_label("Begin with").locator("option")
    listed = [graph["name"] for graph in json.loads(everything.get("/v3/graphs")[1])["graphs"]]
    expect(names).to_have_count(len(listed) + 1)
    tried = page.get_by_role("region", name="Try it")
    wrong = {}
    for name in listed:
        page.get_by_label("Begin with").select_option(name)
        expect(tried.get_by_text("Run the graph:")).to_be_visible()
        expect(page.get_by_text("no mistake found")).to_be_visible()
        page.get_by_role("button", name="Run").click()
        expect(tried.get_by_role("heading", name="Outputs").or_(tried.get_by_role("alert")).first).to_be_visible()
        said = tried.get_by_role("alert").all_inner_texts()
        if said or tried.locator(".packets pre").count() == 0:
            wrong[name] = said
    assert wrong == {}


def test_a_chat_is_not_offered_where_none_can_be(everything, open_page):
    page = open_page(everything.url + "/")
    offered = page.get_by_label("Model", exact=True).locator("option")
    expect(offered).to_have_text(["chat", "graphmill/tiny-vision", "images", "ovms_llm"])


def inputs(example):
    """The values of the packets of an example, by stream."""
    (case,) = tomllib.loads(example["test"])["case"]
    return {packet["stream"]: packet["value"] for packet in case["input"]}


def test_an_example_has_what_its_graph_takes(everything):
    def example(name):
        return json.loads(everything.get(f"/v3/graphs/{name}")[1])["example"]

    assert example("rerank")["path"] == "/v3/rerank"
    assert example("rerank")["body"]["model"] == "rerank"
    assert set(example("rerank")["body"]) == {"model", "query", "documents"}
    assert example("embeddings")["path"] == "/v3/embeddings"
    assert example("chat")["body"]["max_tokens"] == 50
    assert inputs(example("same")) == {"x": {"datatype": "FP32", "shape": [1, 2], "data": [0.5, 0.5]}, "text": "What is a side packet?"}
    assert inputs(example("tensors")) == {"image": {"datatype": "UINT8", "shape": [1, 8, 8, 3], "data": [1] * 192}, "flag": {"datatype": "BOOL", "shape": [], "data": [True]}}
