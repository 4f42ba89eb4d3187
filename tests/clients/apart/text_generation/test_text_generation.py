"""PyPI `text-generation`, TGI's client."""

import pytest
from text_generation import Client
from text_generation.errors import ValidationError
from text_generation.types import Message

from conftest import MODEL

PROMPT = "What is a packet?"


def test_text_generation(serve_one):
    client = Client(serve_one(MODEL).url)
    answer = client.generate(PROMPT, max_new_tokens=12, decoder_input_details=True, top_n_tokens=2)
    details = answer.details
    assert details.finish_reason.value == "length" and details.generated_tokens == len(details.tokens) == 12
    assert "".join(token.text for token in details.tokens if not token.special) == answer.generated_text
    assert all(token.logprob <= 0 for token in details.tokens) and len(details.top_tokens[0]) == 2
    assert len(details.prefill) > 1 and details.prefill[-1].text
    events = list(client.generate_stream(PROMPT, max_new_tokens=12))
    assert "".join(event.token.text for event in events if not event.token.special) == answer.generated_text
    assert events[-1].generated_text == answer.generated_text and events[-1].details.generated_tokens == 12
    assert client.generate(PROMPT, max_new_tokens=3, return_full_text=True).generated_text.startswith(PROMPT)
    cut = client.generate(PROMPT, max_new_tokens=3, truncate=4, decoder_input_details=True)
    assert len(cut.details.prefill) == 4
    best = client.generate(PROMPT, max_new_tokens=4, best_of=3, do_sample=True, temperature=1.5).details
    likelihoods = [sum(token.logprob for token in text.tokens) for text in [best, *best.best_of_sequences]]
    assert len(likelihoods) == 3 and max(likelihoods) == likelihoods[0]
    said = client.chat([Message(role="user", content=PROMPT)], max_tokens=5)
    assert said.choices[0].message.content
    with pytest.raises(ValidationError):
        client.generate(PROMPT, watermark=True)
