"""PyPI `cohere`: embeddings and reranking by its second client."""

import cohere
import pytest

EMBED = "graphmill/tiny-embed"
RERANK = "graphmill/tiny-rerank"


@pytest.fixture
def client(server):
    return cohere.ClientV2(api_key="unused", base_url=server.url)


def test_vectors_by_type(client):
    answer = client.embed(
        model=EMBED, texts=["What is a packet?", "Soup"], input_type="search_document", embedding_types=["float", "base64"]
    )
    assert len(answer.embeddings.float_) == len(answer.embeddings.base64) == 2
    assert len(answer.embeddings.float_[0]) == 128
    assert answer.texts == ["What is a packet?", "Soup"]
    assert answer.meta.billed_units.input_tokens > 2


def test_documents_with_the_best_one_first(client):
    documents = ["The soup needs salt.", "A packet is one piece of data with a timestamp."]
    answer = client.rerank(model=RERANK, query="What is a packet?", documents=documents, top_n=1)
    assert [result.index for result in answer.results] == [1]
    assert answer.meta.billed_units.search_units == 1


def test_what_is_refused(client):
    with pytest.raises(cohere.errors.NotFoundError):
        client.embed(model="nobody", texts=["a"], input_type="search_query", embedding_types=["float"])
    with pytest.raises(cohere.errors.BadRequestError):
        client.embed(model=EMBED, texts=["a"], input_type="search_query", embedding_types=["int8"])
