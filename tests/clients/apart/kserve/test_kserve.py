"""PyPI `kserve`: tensors over REST and gRPC."""

import asyncio

import kserve
import numpy as np

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
        base = f"http://127.0.0.1:{tensors.rest}"
        assert await rest.is_server_live(base) and await rest.is_server_ready(base) and await rest.is_model_ready(base, "mirror")
        answer = await rest.infer(base, request("hello"), model_name="mirror")
        assert answer.model_name == "mirror"
        assert next(output for output in answer.outputs if output.name == "same_x").data == X.flatten().tolist()
        over_grpc = kserve.InferenceGRPCClient(f"127.0.0.1:{tensors.grpc}")
        assert await over_grpc.is_server_live() and await over_grpc.is_model_ready("mirror")
        answer = await over_grpc.infer(request(b"hello"))
        assert np.array_equal(next(output for output in answer.outputs if output.name == "same_x").as_numpy().reshape(X.shape), X)

    asyncio.run(ask())
