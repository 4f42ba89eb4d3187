"""What clients of vLLM send, through PyPI `openai` and its `extra_body`."""

import openai
import pytest
import requests

from conftest import MODEL

QUESTION = [{"role": "user", "content": "What is OpenVINO?"}]


@pytest.fixture
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


def ask(client, **extra):
    return client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, extra_body=extra)


def detokenized(server, tokens):
    return requests.post(f"{server.url}/detokenize", json={"model": MODEL, "tokens": tokens}).json()["prompt"]


def test_token_ids_are_those_of_prompt_and_answer(client, server):
    answer = ask(client, return_token_ids=True)
    (choice,) = answer.choices
    assert len(answer.prompt_token_ids) == answer.usage.prompt_tokens
    assert len(choice.token_ids) == answer.usage.completion_tokens
    assert detokenized(server, choice.token_ids).startswith(choice.message.content)
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=QUESTION, temperature=0, stream=True, extra_body={"return_token_ids": True}
        )
    )
    assert chunks[0].prompt_token_ids == answer.prompt_token_ids
    told = [token for chunk in chunks for token in getattr(chunk.choices[0], "token_ids", None) or []]
    assert told == choice.token_ids
    again = client.completions.create(
        model=MODEL, prompt=answer.prompt_token_ids, temperature=0, max_tokens=8, extra_body={"return_token_ids": True}
    )
    assert again.choices[0].prompt_token_ids == answer.prompt_token_ids
    assert again.choices[0].token_ids == choice.token_ids[:8]


def test_tokens_and_words_that_are_barred(client):
    said = ask(client).choices[0].message.content
    word = said.split()[1]
    assert word not in ask(client, bad_words=[word], max_tokens=40).choices[0].message.content
    first = ask(client, return_token_ids=True).choices[0].token_ids[:1]
    only = ask(client, allowed_token_ids=first, max_tokens=5, return_token_ids=True)
    assert only.choices[0].token_ids == first * 5


def test_a_prompt_is_cut_and_told_of(client):
    answer = client.completions.create(
        model=MODEL,
        prompt="one two three four five",
        max_tokens=1,
        temperature=0,
        extra_body={"truncate_prompt_tokens": 3, "prompt_logprobs": 2, "return_token_ids": True},
    )
    (choice,) = answer.choices
    assert answer.usage.prompt_tokens == 3 == len(choice.prompt_token_ids)
    first, *others = choice.prompt_logprobs
    assert first is None
    for token, place in zip(choice.prompt_token_ids[1:], others, strict=True):
        own = place[str(token)]
        assert own["rank"] >= 1 and own["logprob"] <= 0 and own["decoded_token"]
        assert len(place) in (2, 3)


def test_log_probabilities_name_tokens_by_id(client):
    answer = client.chat.completions.create(
        model=MODEL,
        messages=QUESTION,
        temperature=0,
        logprobs=True,
        extra_body={"return_tokens_as_token_ids": True, "return_token_ids": True},
    )
    (choice,) = answer.choices
    named = [entry.token for entry in choice.logprobs.content]
    assert named == [f"token_id:{token}" for token in choice.token_ids[: len(named)]]


def test_structural_tags_hold_what_is_between_them(client):
    tag = {
        "type": "structural_tag",
        "structures": [{"begin": "<n>", "schema": {"type": "integer"}, "end": "</n>"}],
        "triggers": ["<n"],
    }
    free = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, response_format=tag)
    assert free.choices[0].message.content == ask(client).choices[0].message.content
    only = {"type": "tags_with_separator", "separator": ",", "at_least_one": True, "stop_after_first": True}
    only["tags"] = [{"begin": "<n>", "content": {"type": "json_schema", "json_schema": {"enum": [7]}}, "end": "</n>"}]
    answer = ask(client, structured_outputs={"structural_tag": {"type": "structural_tag", "format": only}})
    assert answer.choices[0].message.content == "<n>7</n>"


def test_what_is_not_done_is_refused_by_name(client):
    for extra in [{"use_beam_search": True}, {"chat_template": "{{ messages }}"}, {"prompt_logprobs": -1}]:
        with pytest.raises(openai.BadRequestError) as refused:
            ask(client, **extra)
        assert refused.value.param == next(iter(extra))


def test_the_template_of_a_request(start_server):
    from conftest import ROOT

    server = start_server(ROOT / "config.json", flags=["--trust_request_chat_template"])
    server.wait_until(server.is_ready, "ready")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    answer = ask(client, chat_template=template, return_token_ids=True, max_tokens=4)
    assert detokenized(server, answer.prompt_token_ids) == QUESTION[0]["content"]
    with pytest.raises(openai.BadRequestError, match="line 2") as refused:
        ask(client, chat_template="\n{% if %}")
    assert refused.value.param == "chat_template"


def test_load_and_version(server):
    assert requests.get(f"{server.url}/load").json() == {"server_load": 0}
    assert requests.get(f"{server.url}/version").json()["version"] == server.status()["version"]
