"""npm `openai`, `ollama` and `@ai-sdk/openai-compatible` against the server: the tests in `node/`, run by Node's own runner."""

from conftest import MODEL, node_tests
from test_openai import answer


def test_node_clients(server, answers):
    node_tests(GRAPHMILL_URL=server.url, GRAPHMILL_MODEL=MODEL, GRAPHMILL_ANSWER=answer(answers, "What is OpenVINO?"))
