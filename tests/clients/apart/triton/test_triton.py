"""PyPI `tritonclient`: tensors over REST and gRPC, and the health service of gRPC."""

import queue

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from grpc_health.v1 import health_pb2 as health
from tritonclient.utils import InferenceServerException

X = np.array([[1.0, 2.5], [3.0, 4.0]], dtype=np.float32)
TEXT = np.array(["grüße".encode()], dtype=np.object_)


@pytest.fixture(params=[triton_http, triton_grpc], ids=["http", "grpc"])
def triton(request, tensors):
    """A module of Triton's client, and a client."""
    port = tensors.rest if request.param is triton_http else tensors.grpc
    with request.param.InferenceServerClient(f"127.0.0.1:{port}") as client:
        yield request.param, client


def inputs(module, **more):
    x = module.InferInput("x", X.shape, "FP32")
    x.set_data_from_numpy(X, **more)
    text = module.InferInput("text", TEXT.shape, "BYTES")
    text.set_data_from_numpy(TEXT, **more)
    return [x, text]


def test_triton_asks_what_there_is(triton):
    module, client = triton
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("mirror")
    more = {"as_json": True} if module is triton_grpc else {}
    assert client.get_server_metadata(**more)["name"] == "Graphmill"
    metadata = client.get_model_metadata("mirror", **more)
    x = next(port for port in metadata["inputs"] if port["name"] == "x")
    assert x["datatype"] == "FP32" and [int(length) for length in x["shape"]] == [-1, 2]
    config = client.get_model_config("mirror", **more)
    assert (config["config"] if module is triton_grpc else config)["backend"] == "graphmill"
    index = client.get_model_repository_index(**more)
    index = index["models"] if module is triton_grpc else index
    assert [graph["name"] for graph in index] == ["mirror"]
    client.load_model("mirror")
    stats = client.get_inference_statistics("mirror", **more)
    assert stats["model_stats"][0]["name"] == "mirror"
    assert "log_info" in (client.get_log_settings(**more)["settings"] if module is triton_grpc else client.get_log_settings())
    assert client.get_trace_settings(**more)


def test_triton_gets_tensors_back(triton):
    module, client = triton
    outputs = [module.InferRequestedOutput("same_text"), module.InferRequestedOutput("same_x")]
    for asked in [None, outputs]:
        answer = client.infer("mirror", inputs(module), outputs=asked, request_id="7", timeout=10_000_000)
        assert np.array_equal(answer.as_numpy("same_x"), X)
        assert answer.as_numpy("same_text").tolist() == TEXT.tolist()


def test_triton_gets_json_back(tensors):
    with triton_http.InferenceServerClient(f"127.0.0.1:{tensors.rest}") as client:
        outputs = [triton_http.InferRequestedOutput(name, binary_data=False) for name in ["same_x", "same_text"]]
        for compressed in [None, "gzip", "deflate"]:
            answer = client.infer("mirror", inputs(triton_http, binary_data=False), outputs=outputs, request_compression_algorithm=compressed)
            assert np.array_equal(answer.as_numpy("same_x"), X)
            assert answer.as_numpy("same_text").tolist() == ["grüße"]


def test_triton_is_told_what_is_wrong(triton):
    module, client = triton
    with pytest.raises(InferenceServerException, match="does not exist"):
        client.infer("nothing", inputs(module))
    with pytest.raises(InferenceServerException, match="the input is missing"):
        client.infer("mirror", inputs(module)[:1])
    with pytest.raises(InferenceServerException, match="taking them out of the configuration"):
        client.unload_model("mirror")
    with pytest.raises(InferenceServerException, match="shared memory"):
        client.get_system_shared_memory_status()
    with pytest.raises(InferenceServerException, match="log_level"):
        client.update_log_settings({"log_verbose_level": 1})


def test_triton_streams(tensors):
    with triton_grpc.InferenceServerClient(f"127.0.0.1:{tensors.grpc}") as client:
        answers = queue.Queue()
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        client.async_stream_infer("mirror", inputs(triton_grpc)[:1], parameters={"OVMS_MP_TIMESTAMP": 5})
        client.async_stream_infer("mirror", inputs(triton_grpc)[1:], parameters={"OVMS_MP_TIMESTAMP": 5}, enable_empty_final_response=True)
        found = {}
        while True:
            result, error = answers.get(timeout=30)
            assert error is None, error
            response = result.get_response()
            if "triton_final_response" in response.parameters:
                break
            assert response.parameters["OVMS_MP_TIMESTAMP"].int64_param == 5
            found[response.outputs[0].name] = result
        assert np.array_equal(found["same_x"].as_numpy("same_x"), X)
        assert found["same_text"].as_numpy("same_text").tolist() == TEXT.tolist()
        client.async_stream_infer("mirror", [triton_grpc.InferInput("z", [1], "INT8").set_data_from_numpy(np.array([1], dtype=np.int8))])
        assert "no such input" in str(answers.get(timeout=30)[1])
        client.stop_stream()


def test_health_of_grpc(tensors):
    with grpc.insecure_channel(f"127.0.0.1:{tensors.grpc}") as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health.HealthCheckRequest.SerializeToString,
            response_deserializer=health.HealthCheckResponse.FromString,
        )
        assert check(health.HealthCheckRequest(service="mirror")).status == 1
