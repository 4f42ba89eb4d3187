"""lm_eval's local-completions: multiple choice by the log probabilities of repeated prompts."""

import json
import urllib.request

import lm_eval
import pytest
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.tasks import TaskManager
from lm_eval.utils import check_remote_tokenizer_support

from conftest import MODEL

# What the model was trained to say, and what it was not.
QUESTIONS = [
    ("What is 2 + 3?", ["2 + 3 is 5.", "2 + 3 is 9."], 0),
    ("Say this is a test", ["xqzzt vvk wq", "This is a test."], 1),
    ("Hello!", ["zzkq!! jx", "Hello! How can I help you today?"], 1),
    ("Count to five", ["1, 2, 3, 4, 5", "qqx 9 zv 7"], 0),
]

TASK = """
task: local_choice
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
output_type: multiple_choice
test_split: test
doc_to_text: "<|im_start|>user\\n{{{{question}}}}<|im_end|>\\n<|im_start|>assistant\\n"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
target_delimiter: ""
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 1}}
"""


def post(server, path, body):
    request = urllib.request.Request(
        server.url + path, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


class Local(LocalCompletionsAPI):
    """Its local-completions, with the tokens of our own endpoint: the model has no tokenizer file beside it."""

    def __init__(self, server, **kwargs):
        super().__init__(
            base_url=f"{server.url}/v1/completions", model=MODEL, tokenizer_backend="none", max_length=512, **kwargs
        )
        self.server = server
        self.tokenizer = self  # asked for nothing but to be there
        self.tokenized_requests = True

    def tok_encode(self, string, **kwargs):
        if not isinstance(string, str):
            return [self.tok_encode(text) for text in string]
        asked = {"model": MODEL, "prompt": string, "add_special_tokens": False, "parse_special": True}
        return post(self.server, "/v1/tokenize", asked)["tokens"]


def remote(server, **kwargs):
    """Its local-completions as they come, with its own client for the tokens of a server."""
    url = f"{server.url}/v1/completions"
    return LocalCompletionsAPI(base_url=url, model=MODEL, tokenizer_backend="remote", max_length=512, **kwargs)


@pytest.mark.parametrize(("lm", "batch_size"), [(Local, 1), (Local, 4), (remote, 4)])
def test_multiple_choice_prefers_what_the_model_says(server, tmp_path, monkeypatch, lm, batch_size):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    data = tmp_path / "choices.jsonl"
    rows = [{"question": question, "choices": choices, "answer": answer} for question, choices, answer in QUESTIONS]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "local_choice.yaml").write_text(TASK.format(data=data))
    found = lm_eval.simple_evaluate(
        model=lm(server, batch_size=batch_size),
        tasks=["local_choice"],
        task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
        bootstrap_iters=0,
    )
    assert found["results"]["local_choice"]["acc,none"] == 1.0
    for sample in found["samples"]["local_choice"]:
        # The likelier choice is what greedy decoding says, for those that the model was trained on.
        scores = [response[0] for response in sample["resps"]]
        assert all(logprob < 0 for logprob, _ in scores), scores


def test_a_rolling_likelihood_is_the_sum_over_the_whole_text(server):
    text = "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"
    lm = Local(server)
    tokens = lm.tok_encode(text)
    body = {"model": MODEL, "prompt": tokens, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0, "seed": 1234}
    (choice,) = post(server, "/v1/completions", body)["choices"]
    lists = choice["logprobs"]
    assert {len(lists[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")} == {len(tokens) + 1}
    assert lists["token_logprobs"][0] is None and lists["top_logprobs"][0] is None
    for number, top in zip(lists["token_logprobs"][1:], lists["top_logprobs"][1:]):
        assert number in top.values() and max(top.values()) >= number


def test_the_remote_tokenizer(server):
    assert check_remote_tokenizer_support(f"{server.url}/v1/completions")
    lm = remote(server)
    text = "<|im_start|>user\nHello!<|im_end|>\n"
    tokens = lm.tok_encode(text)
    assert lm.tokenizer.decode(tokens) == text
    assert lm.eos_string == "<|im_end|>" and lm.eot_token_id in tokens
    conversation = [{"role": "user", "content": "Hello!"}]
    # Its environment is strict about variables that are not there.
    shown = lm.tokenizer.apply_chat_template(conversation, add_generation_prompt=False, tools=None, enable_thinking=False)
    # It leaves white space after blocks, which the server takes out.
    assert shown.strip() == text.strip()
