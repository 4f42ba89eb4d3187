"""Clients of LLM-API, a server that TorchServe runs: `requests`, `aiohttp`, and stubs that `grpcio-tools` makes."""

import asyncio
import json
import sys

import aiohttp
import grpc
import pytest
import requests
from conftest import ROOT, free_port
from grpc_tools import protoc

MODEL_NAME = "chat"
END = "<|endoftext|>"
REPLIES = [{"text": "unused"}]
# The scripted model goes on with the letters behind the last one of a prompt.
PROMPT, ANSWER = "say m", "nopqrstuvwxyz{|}"


@pytest.fixture
def grpc_port():
    return free_port()


@pytest.fixture
def server(scripted, grpc_port):
    return scripted(REPLIES, flags=("--end_of_stream_token", END, "--port", str(grpc_port)))


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    """The modules of TorchServe's clients."""
    folder = tmp_path_factory.mktemp("stubs")
    protos = [str(path) for path in (ROOT / "server" / "proto").glob("torchserve_*.proto")]
    well_known = protoc.__file__.removesuffix("protoc.py") + "_proto"
    arguments = ["", f"-I{ROOT / 'server' / 'proto'}", f"-I{well_known}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
    assert protoc.main([*arguments, *protos]) == 0
    sys.path.insert(0, str(folder))
    import torchserve_inference_pb2
    import torchserve_inference_pb2_grpc
    import torchserve_management_pb2
    import torchserve_management_pb2_grpc

    return torchserve_inference_pb2, torchserve_inference_pb2_grpc, torchserve_management_pb2, torchserve_management_pb2_grpc


def test_requests_sends_a_form(server):
    instruction, optional_generation_parameters = PROMPT, {"max_new_tokens": 4, "do_sample": False, "seed": None}
    response = requests.post(f"{server.url}/predictions/{MODEL_NAME}", data={"text": instruction, **optional_generation_parameters})
    assert (response.status_code, response.text) == (200, ANSWER[:4] + END)
    response = requests.post(f"{server.url}/predictions/{MODEL_NAME}", json={"text": instruction, "max_new_tokens": 4})
    assert response.text == ANSWER[:4] + END
    response = requests.post(f"{server.url}/predictions/{MODEL_NAME}", files={"data": ("a.txt", instruction, "text/plain")}, data={"max_new_tokens": "4"})
    assert response.text == ANSWER[:4] + END
    embeddings = [[0.5, 0.5]]
    response2 = requests.post(f"{server.url}/predictions/{MODEL_NAME}", data={"inputs_embeds": embeddings, **optional_generation_parameters})
    assert response2.status_code == 400
    assert response2.json()["type"] == "BadRequestException"


async def streaming_post(model_endpoint: str, data: dict):
    received = ""
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            model_endpoint,
            data=data,
        ) as resp,
    ):
        async for chunk in resp.content.iter_chunked(32):
            text = chunk.decode()
            received += text

            if "<|endoftext|>" in text:
                text = text.replace("<|endoftext|>", "")
                break
    return received


def test_aiohttp_reads_chunks_until_the_end_of_the_stream(server):
    received = asyncio.run(streaming_post(f"{server.url}/predictions/{MODEL_NAME}", data={"text": PROMPT, "max_new_tokens": len(ANSWER)}))
    assert received == ANSWER + END


def test_grpc_streams_pieces(server, grpc_port, stubs):
    inference_pb2, inference_pb2_grpc, _, _ = stubs

    async def grpc_post(data):
        received = []
        async with grpc.aio.insecure_channel(f"localhost:{grpc_port}") as channel:
            stub = inference_pb2_grpc.InferenceAPIsServiceStub(channel)
            response = stub.StreamPredictions(inference_pb2.PredictionsRequest(model_name=MODEL_NAME, input=data))
            async for chunk in response:
                text = chunk.prediction.decode()
                received.append(text)
                if "<|endoftext|>" in text:
                    break
        return received

    received = asyncio.run(grpc_post({"text": PROMPT.encode(), "max_new_tokens": b"5"}))
    assert "".join(received) == ANSWER[:5] + END
    assert len(received) > 1


def test_grpc_describes_models(server, grpc_port, stubs):
    inference_pb2, inference_pb2_grpc, management_pb2, management_pb2_grpc = stubs
    from google.protobuf import empty_pb2

    with grpc.insecure_channel(f"localhost:{grpc_port}") as channel:
        inference, management = inference_pb2_grpc.InferenceAPIsServiceStub(channel), management_pb2_grpc.ManagementAPIsServiceStub(channel)
        assert inference.Ping(empty_pb2.Empty()).health == "Healthy"
        whole = inference.Predictions(inference_pb2.PredictionsRequest(model_name=MODEL_NAME, input={"data": PROMPT.encode(), "max_new_tokens": b"2"}))
        assert whole.prediction.decode() == ANSWER[:2] + END
        listed = json.loads(management.ListModels(management_pb2.ListModelsRequest(limit=10)).msg)
        assert [model["modelName"] for model in listed["models"]] == [MODEL_NAME]
        described = json.loads(management.DescribeModel(management_pb2.DescribeModelRequest(model_name=MODEL_NAME)).msg)
        assert described[0]["modelVersion"] == "1"
        with pytest.raises(grpc.RpcError) as refused:
            management.RegisterModel(management_pb2.RegisterModelRequest(url="a.mar"))
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
