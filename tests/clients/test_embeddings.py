"""Embeddings through PyPI `openai`, retrieval through `langchain-openai`, and reranking over plain HTTP."""

import concurrent.futures
import json
import math
import urllib.error
import urllib.request

import openai
import pytest
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from conftest import MODEL

EMBED = "graphmill/tiny-embed"
RERANK = "graphmill/tiny-rerank"
WIDTH = 128

FACTS = [
    "A packet is one piece of data with a timestamp. Packets travel on streams and never change once they are made.",
    "OpenVINO is an open source toolkit from Intel. It makes neural networks run fast on CPUs, GPUs and NPUs.",
    "GGUF is a file format for language models. One file holds the weights, the tokenizer and the chat template.",
    "The soup needs salt, an onion and two carrots. Cook it for an hour.",
    "The train to Vienna leaves at noon from the old station.",
]


@pytest.fixture(params=["/v3", "/v1"])
def client(server, request):
    return openai.OpenAI(base_url=server.url + request.param, api_key="unused", max_retries=0)


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def close(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 1e-5 for x, y in zip(a, b))


def test_near_texts_have_near_vectors(client):
    texts = ["What is a packet?", *FACTS]
    answer = client.embeddings.create(model=EMBED, input=texts)  # the client asks for base64 unless told otherwise
    assert [item.index for item in answer.data] == list(range(len(texts)))
    assert answer.model == EMBED and answer.usage.prompt_tokens == answer.usage.total_tokens > 50
    question, *facts = [item.embedding for item in answer.data]
    assert len(question) == WIDTH and abs(cosine(question, question) - 1) < 1e-6
    near = [cosine(question, fact) for fact in facts]
    assert max(near) == near[0] > near[3] + 0.2


def test_forms_of_input_and_output_agree(client, server):
    text = FACTS[0]
    (whole,) = client.embeddings.create(model=EMBED, input=text).data
    (numbers,) = client.embeddings.create(model=EMBED, input=[text], encoding_format="float").data
    assert close(whole.embedding, numbers.embedding)
    few = client.embeddings.create(model=EMBED, input=[[2, 50, 60, 3], [2, 70, 3]])
    one = client.embeddings.create(model=EMBED, input=[2, 50, 60, 3])
    assert close(few.data[0].embedding, one.data[0].embedding)
    assert few.usage.prompt_tokens == 7
    (short,) = client.embeddings.create(model=EMBED, input=text, dimensions=32).data
    length = math.sqrt(sum(x * x for x in whole.embedding[:32]))
    assert close(short.embedding, [x / length for x in whole.embedding[:32]])


def test_what_does_not_fit_is_refused(client):
    with pytest.raises(openai.BadRequestError) as refusal:
        client.embeddings.create(model=EMBED, input=["fine", "word " * 600])
    assert refusal.value.code == "context_length_exceeded" and refusal.value.param == "input[1]"
    assert "602 tokens" in refusal.value.message
    for change, param in [({"dimensions": WIDTH + 1}, "dimensions"), ({"input": [[1, 99999]]}, "input"), ({"input": []}, "input")]:
        with pytest.raises(openai.BadRequestError) as refusal:
            client.embeddings.create(**({"model": EMBED, "input": "text"} | change))
        assert refusal.value.param == param
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model=EMBED, messages=[{"role": "user", "content": "Hello!"}])


def test_many_clients_share_batches_and_get_what_they_get_alone(server):
    client = openai.OpenAI(base_url=server.url + "/v3", api_key="unused", max_retries=0)
    texts = [f"{fact} {number}" for number in range(8) for fact in FACTS]
    alone = [client.embeddings.create(model=EMBED, input=text).data[0].embedding for text in texts]

    def ask(text):
        if text is None:  # a request that is refused, among those that are not
            with pytest.raises(openai.BadRequestError):
                client.embeddings.create(model=EMBED, input="word " * 600)
            return None
        return client.embeddings.create(model=EMBED, input=text).data[0].embedding

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list_of_all = pool.submit(client.embeddings.create, model=EMBED, input=texts * 5)
        together = list(pool.map(ask, [*texts, None, *texts]))
    assert all(close(a, b) for a, b in zip([*alone, *alone], [v for v in together if v]))
    assert all(close(item.embedding, alone[item.index % len(texts)]) for item in list_of_all.result().data)
    metrics = server.get("/metrics")[1]
    assert f'graphmill_embedding_finish_total{{graph="{EMBED}",model="tiny-embed",reason="done"}}' in metrics


def post(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize("path", ["/v3/rerank", "/v1/rerank"])
def test_rerank_finds_the_answer(server, path):
    documents = [FACTS[3], FACTS[4], FACTS[2], FACTS[0]]
    status, answer = post(server, path, {"model": RERANK, "query": "What is a packet?", "documents": documents, "top_n": 3, "return_documents": True})
    assert status == 200
    results = answer["results"]
    assert len(results) == 3 and results[0]["index"] == 3 and results[0]["document"]["text"] == FACTS[0]
    scores = [result["relevance_score"] for result in results]
    assert scores == sorted(scores, reverse=True) and 0 <= scores[-1] < scores[0] <= 1
    assert answer["usage"]["total_tokens"] > 0 and answer["id"] and answer["model"] == RERANK


def test_rerank_reads_long_documents_in_pieces(server):
    long = "The train leaves at noon. " * 150 + FACTS[0]
    body = {"model": RERANK, "query": "What is a packet?", "documents": [{"text": FACTS[4]}, {"text": long}]}
    status, answer = post(server, "/v3/rerank", body)
    assert status == 200 and answer["usage"]["total_tokens"] > 900
    assert answer["results"][0]["index"] == 1
    status, refusal = post(server, "/v3/rerank", {**body, "documents": "one"})
    assert status == 400 and refusal["error"]["param"] == "documents"


def test_a_retrieval_chain_of_langchain(server):
    base_url = server.url + "/v3"
    embeddings = OpenAIEmbeddings(model=EMBED, base_url=base_url, api_key="unused", check_embedding_ctx_length=False)
    store = InMemoryVectorStore(embeddings)
    store.add_documents([Document(page_content=fact) for fact in FACTS])
    retriever = store.as_retriever(search_kwargs={"k": 1})
    seen = []

    def joined(documents):
        seen.extend(document.page_content for document in documents)
        return "\n\n".join(document.page_content for document in documents)

    prompt = ChatPromptTemplate.from_messages([("system", "Use this: {context}"), ("user", "{question}")])
    chat = ChatOpenAI(model=MODEL, base_url=base_url, api_key="unused", temperature=0, max_tokens=60)
    chain = {"context": retriever | joined, "question": RunnablePassthrough()} | prompt | chat | StrOutputParser()
    answer = chain.invoke("What is OpenVINO?")
    assert seen == [FACTS[1]]
    assert "OpenVINO" in answer
    streamed = "".join(chain.stream("What is OpenVINO?"))
    assert streamed == answer
