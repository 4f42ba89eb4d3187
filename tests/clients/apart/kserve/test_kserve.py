"""PyPI `kserve`: tensors over REST and gRPC."""

import asyncio

import grpc
import httpx
import kserve
import numpy as np
import pytest

X = np.array([[1.0, 2.5], [3.0, 4.0]], dtype=np.float32)


def test_kserve_over_rest_and_grpc(tensors):
    async def ask():
        def request(text):
            inputs = [
                kserve.InferInput("x", list(X.shape), "FP32", data=X.flatten().tolist()),
                kserve.InferInput("text", [1], "BYTES", data=[text]),
            ]
            return kserve.InferRequest(model_name="mirror", infer_inputs=inputs)

        rest = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2"))
        base = f"http://{tensors.rest}"
        assert await rest.is_server_live(base) and await rest.is_server_ready(base) and await rest.is_model_ready(base, "mirror")
        answer = await rest.infer(base, request("hello"), model_name="mirror")
        assert answer.model_name == "mirror"
        assert next(output for output in answer.outputs if output.name == "same_x").data == X.flatten().tolist()
        over_grpc = kserve.InferenceGRPCClient(tensors.grpc)
        assert await over_grpc.is_server_live() and await over_grpc.is_model_ready("mirror")
        answer = await over_grpc.infer(request(b"hello"))
        assert np.array_equal(next(output for output in answer.outputs if output.name == "same_x").as_numpy().reshape(X.shape), X)

    asyncio.run(ask())


def test_kserve_tells_what_is_wrong(tensors):
    async def ask():
        nothing = kserve.InferRequest(model_name="nothing", infer_inputs=[kserve.InferInput("x", [1], "INT8", data=[1])])
        rest = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2"))
        base = f"http://{tensors.rest}"
        with pytest.raises(httpx.HTTPStatusError, match="404"):
            await rest.infer(base, nothing, model_name="nothing")
        over_grpc = kserve.InferenceGRPCClient(tensors.grpc)
        assert await over_grpc.is_server_ready()
        with pytest.raises(grpc.RpcError) as refused:
            await over_grpc.infer(nothing)
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND

    asyncio.run(ask())


def test_kserve_asks_a_chat(tensors, answers):
    question = "What is OpenVINO?"
    expected = next(answer["expected"] for answer in answers if answer["messages"] == [{"role": "user", "content": question}])

    async def ask():
        prompt = kserve.InferInput("prompt", [1], "BYTES", data=[question.encode()])
        over_grpc = kserve.InferenceGRPCClient(tensors.grpc)
        asked = kserve.InferRequest(model_name="text", infer_inputs=[prompt], parameters={"max_tokens": 100, "stop": "never"})
        answer = await over_grpc.infer(asked)
        text = next(output for output in answer.outputs if output.name == "text")
        assert text.as_string() if hasattr(text, "as_string") else text.as_numpy().size == 1
        prompt = kserve.InferInput("prompt", [1], "BYTES", data=[question])
        rest = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2"))
        asked = kserve.InferRequest(model_name="text", infer_inputs=[prompt], parameters={"max_tokens": 100, "temperature": 0})
        answer = await rest.infer(f"http://{tensors.rest}", asked, model_name="text")
        assert next(output for output in answer.outputs if output.name == "text").data == [expected]

    asyncio.run(ask())
