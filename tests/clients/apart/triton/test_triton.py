"""PyPI `tritonclient`: tensors over REST and gRPC, and the health service of gRPC."""

import asyncio
import queue

import grpc
import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2 as health
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tritonclient.grpc import model_config_pb2 as model_config
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

X = np.array([[1.0, 2.5], [3.0, 4.0]], dtype=np.float32)
TEXT = np.array(["grüße".encode()], dtype=np.object_)


IMAGES = """
input_stream: "image"
output_stream: "same"
node { calculator: "PassThroughCalculator" input_stream: "image" output_stream: "same" }
graph_options { [type.googleapis.com/graphmill.TensorOptions] {
  max_batch_size: 8
  input { name: "image" datatype: FP32 shape: [-1, 3, 4, 4] format: NCHW }
  output { name: "same" datatype: FP32 shape: [-1, 3, 4, 4] }
} }
"""


@pytest.fixture(params=[triton_http, triton_grpc], ids=["http", "grpc"])
def triton(request, tensors):
    """A module of Triton's client, and a client."""
    address = tensors.rest if request.param is triton_http else tensors.grpc
    with request.param.InferenceServerClient(address) as client:
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
    assert sorted(graph["name"] for graph in index) == ["any", "last", "mirror", "text"]
    assert all(graph["state"] == "READY" for graph in index)
    client.load_model("mirror")
    client.load_model("any", headers={"x-anything": "1"})
    stats = client.get_inference_statistics("mirror", **more)
    assert stats["model_stats"][0]["name"] == "mirror"
    assert "log_info" in (client.get_log_settings(**more)["settings"] if module is triton_grpc else client.get_log_settings())
    before = client.get_trace_settings(**more)
    assert client.update_trace_settings("mirror", {"trace_level": ["OFF"], "trace_rate": None}, **more) == before
    changed = client.update_log_settings({"log_verbose_level": 1}, **more)
    changed = changed["settings"] if module is triton_grpc else changed
    assert changed["log_verbose_level"] in (1, {"uint32_param": 1})
    client.update_log_settings({"log_verbose_level": 0})


def test_triton_controls_models(triton):
    """As in Triton's example `simple_http_model_control.py`."""
    module, client = triton
    client.unload_model("any")
    assert not client.is_model_ready("any")
    index = client.get_model_repository_index(**({"as_json": True} if module is triton_grpc else {}))
    index = index["models"] if module is triton_grpc else index
    assert [graph["state"] for graph in index if graph["name"] == "any"] == ["UNAVAILABLE"]
    with pytest.raises(InferenceServerException, match="is not loaded"):
        client.infer("any", inputs(module)[:1])
    client.load_model("any")
    assert client.is_model_ready("any") and client.is_server_ready()
    with pytest.raises(InferenceServerException, match="does not exist"):
        client.load_model("wrong_model_name")


def test_triton_gets_tensors_back(triton):
    module, client = triton
    outputs = [module.InferRequestedOutput("same_text"), module.InferRequestedOutput("same_x")]
    for asked in [None, outputs]:
        answer = client.infer("mirror", inputs(module), outputs=asked, request_id="7", timeout=10_000_000)
        assert np.array_equal(answer.as_numpy("same_x"), X)
        assert answer.as_numpy("same_text").tolist() == TEXT.tolist()


def test_triton_gets_classes(triton):
    module, client = triton
    answer = client.infer("mirror", inputs(module), outputs=[module.InferRequestedOutput("same_x", class_count=2)])
    classes = answer.as_numpy("same_x").tolist()
    assert classes == [[b"2.500000:1", b"1.000000:0"], [b"4.000000:1", b"3.000000:0"]]


def test_triton_gets_json_back(tensors):
    with triton_http.InferenceServerClient(tensors.rest) as client:
        outputs = [triton_http.InferRequestedOutput(name, binary_data=False) for name in ["same_x", "same_text"]]
        for compressed in [None, "gzip", "deflate"]:
            answer = client.infer("mirror", inputs(triton_http, binary_data=False), outputs=outputs, request_compression_algorithm=compressed)
            assert np.array_equal(answer.as_numpy("same_x"), X)
            assert answer.as_numpy("same_text").tolist() == ["grüße"]


def test_triton_asks_for_the_classes_of_each_row(triton):
    module, client = triton
    outputs = [module.InferRequestedOutput("same_x", class_count=2)]
    classes = client.infer("mirror", inputs(module), outputs=outputs).as_numpy("same_x")
    assert classes.tolist() == [[b"2.500000:1", b"1.000000:0"], [b"4.000000:1", b"3.000000:0"]]


def test_triton_is_told_what_is_wrong(triton):
    module, client = triton
    with pytest.raises(InferenceServerException, match="does not exist"):
        client.infer("nothing", inputs(module))
    with pytest.raises(InferenceServerException, match="the input is missing"):
        client.infer("mirror", inputs(module)[:1])
    with pytest.raises(InferenceServerException, match="unload_dependents"):
        client.unload_model("mirror", unload_dependents=True)
    with pytest.raises(InferenceServerException, match="shared memory"):
        client.get_system_shared_memory_status()
    with pytest.raises(InferenceServerException, match="shared memory"):
        client.get_cuda_shared_memory_status("region")
    with pytest.raises(InferenceServerException, match="shared memory"):
        client.register_system_shared_memory("region", "/region", 8)
    with pytest.raises(InferenceServerException, match="shared memory"):
        client.unregister_system_shared_memory("region")
    with pytest.raises(InferenceServerException, match="parameters.config"):
        client.load_model("mirror", config="{}")
    with pytest.raises(InferenceServerException, match="parameters.file:1/model.onnx"):
        client.load_model("mirror", config="{}", files={"file:1/model.onnx": b"onnx"})
    shared = module.InferInput("x", [1, 2], "FP32")
    shared.set_shared_memory("region", 8)
    with pytest.raises(InferenceServerException, match="shared memory"):
        client.infer("any", [shared])
    with pytest.raises(InferenceServerException, match="log_file"):
        client.update_log_settings({"log_file": "/tmp/log"})
    with pytest.raises(InferenceServerException, match="trace_level.*otlp_endpoint"):
        client.update_trace_settings("mirror", {"trace_level": ["TIMESTAMPS"], "trace_mode": "opentelemetry"})
    with pytest.raises(InferenceServerException, match="mirror.*no version `9`"):
        client.infer("mirror", inputs(module), model_version="9")


def test_triton_streams(tensors):
    with triton_grpc.InferenceServerClient(tensors.grpc) as client:
        answers = queue.Queue()
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        client.async_stream_infer("mirror", inputs(triton_grpc)[:1], parameters={"OVMS_MP_TIMESTAMP": 5})
        client.async_stream_infer("mirror", inputs(triton_grpc)[1:], parameters={"OVMS_MP_TIMESTAMP": 5}, enable_empty_final_response=True)
        found = {}
        while True:
            result, error = answers.get(timeout=30)
            assert error is None, error
            response = result.get_response()
            if response.parameters["triton_final_response"].bool_param:
                break
            assert response.parameters["OVMS_MP_TIMESTAMP"].int64_param == 5
            found[response.outputs[0].name] = result
        assert np.array_equal(found["same_x"].as_numpy("same_x"), X)
        assert found["same_text"].as_numpy("same_text").tolist() == TEXT.tolist()
        client.async_stream_infer("mirror", [triton_grpc.InferInput("z", [1], "INT8").set_data_from_numpy(np.array([1], dtype=np.int8))])
        assert "unknown input" in str(answers.get(timeout=30)[1])
        client.stop_stream()


@pytest.mark.parametrize("datatype", ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64", "BYTES"])
def test_triton_gets_each_datatype_back(triton, datatype):
    module, client = triton
    x = {
        "BOOL": np.array([[True, False], [False, True]]),
        "BYTES": np.array([[b"", b"\xff\x00"], ["grüße".encode(), b"a" * 1000]], dtype=np.object_),
        "BF16": np.array([[1.0, -2.5], [0.0, 65536.0]], dtype=ml_dtypes.bfloat16),
    }.get(datatype)
    if x is None:
        x = np.array([[1, 2], [0, 100]], dtype=triton_to_np_dtype(datatype))
    given = module.InferInput("x", x.shape, datatype)
    given.set_data_from_numpy(x)
    answer = client.infer("any", [given])
    assert np.array_equal(answer.as_numpy("same"), x)
    assert answer.get_output("same")["datatype"] == datatype if module is triton_http else answer.get_output("same").datatype == datatype


def test_triton_compresses_both_ways(triton):
    module, client = triton
    x = module.InferInput("x", [1000], "INT32")
    x.set_data_from_numpy(np.zeros(1000, dtype=np.int32))
    for algorithm in ["gzip", "deflate"]:
        how = (
            {"request_compression_algorithm": algorithm, "response_compression_algorithm": algorithm}
            if module is triton_http
            else {"compression_algorithm": algorithm}
        )
        assert client.infer("any", [x], **how).as_numpy("same").tolist() == [0] * 1000


def test_triton_asks_without_waiting(tensors):
    with triton_http.InferenceServerClient(tensors.rest, concurrency=4) as client:
        asked = [client.async_infer("mirror", inputs(triton_http)) for _ in range(20)]
        assert all(np.array_equal(request.get_result().as_numpy("same_x"), X) for request in asked)
    with triton_grpc.InferenceServerClient(tensors.grpc) as client:
        answers = queue.Queue()
        for _ in range(20):
            client.async_infer("mirror", inputs(triton_grpc), callback=lambda result, error: answers.put((result, error)))
        for _ in range(20):
            result, error = answers.get(timeout=30)
            assert error is None and np.array_equal(result.as_numpy("same_x"), X)


def test_triton_asks_from_coroutines(tensors):
    async def ask():
        async with triton_http_aio.InferenceServerClient(tensors.rest) as client:
            assert await client.is_server_ready() and await client.is_model_ready("mirror")
            answer = await client.infer("mirror", inputs(triton_http))
            assert np.array_equal(answer.as_numpy("same_x"), X)
        async with triton_grpc_aio.InferenceServerClient(tensors.grpc) as client:
            assert await client.is_server_ready() and await client.is_model_ready("mirror")
            answer = await client.infer("mirror", inputs(triton_grpc))
            assert np.array_equal(answer.as_numpy("same_x"), X)

            async def messages():
                yield {"model_name": "any", "inputs": [one(triton_grpc, 5)], "parameters": {"OVMS_MP_TIMESTAMP": 5}}

            async for result, error in client.stream_infer(messages()):
                assert error is None and result.as_numpy("same").tolist() == [5]

    asyncio.run(ask())


def one(module, number):
    return module.InferInput("x", [1], "INT32").set_data_from_numpy(np.array([number], dtype=np.int32))


def test_triton_has_a_deadline(tensors):
    with triton_grpc.InferenceServerClient(tensors.grpc) as client:
        text = triton_grpc.InferInput("prompt", [1], "BYTES").set_data_from_numpy(np.array([b"What is OpenVINO?"], dtype=np.object_))
        for limit in [{"client_timeout": 0.000001}, {"timeout": 1}]:
            with pytest.raises(InferenceServerException, match="(?i)deadline"):
                client.infer("text", [text], **limit)


def test_triton_has_sequences(triton):
    module, client = triton
    for sequence in [7, "seven"]:
        client.infer("last", [one(module, 1)], sequence_id=sequence, sequence_start=True)
        answer = client.infer("last", [one(module, 2)], sequence_id=sequence)
        assert (answer.as_numpy("last").tolist(), answer.as_numpy("same").tolist()) == ([1], [2])
        client.infer("last", [one(module, 3)], sequence_id=sequence, sequence_end=True)
        with pytest.raises(InferenceServerException, match="no sequence"):
            client.infer("last", [one(module, 4)], sequence_id=sequence)


def test_triton_has_sequences_in_a_stream(tensors):
    with triton_grpc.InferenceServerClient(tensors.grpc) as client:
        answers = queue.Queue()
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        for number in range(3):
            for sequence in [11, 12]:
                client.async_stream_infer(
                    "last", [one(triton_grpc, number * sequence)], sequence_id=sequence, sequence_start=number == 0, sequence_end=number == 2
                )
        given = [answers.get(timeout=30) for _ in range(6)]
        assert all(error is None for _, error in given)
        assert [int(result.as_numpy("same")[0]) for result, _ in given] == [0, 0, 11, 12, 22, 24]
        assert [int(result.as_numpy("last")[0]) for result, _ in given[2:]] == [0, 0, 11, 12]
        client.stop_stream()


def test_a_chat_is_asked_with_tensors(triton, answers):
    module, client = triton
    question = "What is OpenVINO?"
    expected = next(answer["expected"] for answer in answers if answer["messages"] == [{"role": "user", "content": question}])
    prompt = module.InferInput("prompt", [1], "BYTES").set_data_from_numpy(np.array([question.encode()], dtype=np.object_))
    answer = client.infer("text", [prompt], parameters={"temperature": 0, "max_tokens": 100})
    assert answer.as_numpy("text").tolist() == [expected.encode()]
    assert answer.as_numpy("finish_reason").tolist() == [b"stop"]
    answer = client.infer("text", [prompt], parameters={"max_tokens": 3, "temperature": 0.5, "seed": 7, "stop": "Toolkit"})
    assert answer.as_numpy("finish_reason").tolist() == [b"length"]
    with pytest.raises(InferenceServerException, match="temperature"):
        client.infer("text", [prompt], parameters={"temperature": 9})


def test_a_chat_streams_tensors(tensors, answers):
    question = "What is OpenVINO?"
    expected = next(answer["expected"] for answer in answers if answer["messages"] == [{"role": "user", "content": question}])
    with triton_grpc.InferenceServerClient(tensors.grpc) as client:
        given = queue.Queue()
        client.start_stream(callback=lambda result, error: given.put((result, error)))
        prompt = triton_grpc.InferInput("prompt", [1], "BYTES").set_data_from_numpy(np.array([question.encode()], dtype=np.object_))
        client.async_stream_infer("text", [prompt], parameters={"temperature": 0, "stream": True})
        pieces = []
        while True:
            result, error = given.get(timeout=30)
            assert error is None, error
            name = result.get_response().outputs[0].name
            if name == "finish_reason":
                assert result.as_numpy(name).tolist() == [b"stop"]
                break
            pieces.append(result.as_numpy("text")[0].decode())
        client.stop_stream()
    while not given.empty():
        result, error = given.get()
        pieces.append(result.as_numpy("text")[0].decode())
    assert len(pieces) > 3 and "".join(pieces) == expected


def test_a_stream_has_several_prompts_and_each_ends_with_its_final_answer(tensors, answers):
    asked = [(answer["messages"][0]["content"], answer["expected"]) for answer in answers if len(answer["messages"]) == 1][:2]
    assert len(asked) == 2
    with triton_grpc.InferenceServerClient(tensors.grpc) as client:
        given = queue.Queue()
        client.start_stream(callback=lambda result, error: given.put((result, error)))
        for number, (question, _) in enumerate(asked):
            prompt = triton_grpc.InferInput("prompt", [1], "BYTES").set_data_from_numpy(np.array([question.encode()], dtype=np.object_))
            parameters = {"temperature": 0, "stream": True} if number == 0 else None
            client.async_stream_infer("text", [prompt], request_id=f"q{number}", parameters=parameters, enable_empty_final_response=True)
        for number, (_, expected) in enumerate(asked):
            text = ""
            while True:
                result, error = given.get(timeout=30)
                assert error is None, error
                response = result.get_response()
                assert response.id == f"q{number}"
                if response.parameters["triton_final_response"].bool_param:
                    break
                if response.outputs[0].name == "text":
                    text += result.as_numpy("text")[0].decode()
            assert text == expected
        client.stop_stream()


def test_reflection_of_grpc(tensors):
    with grpc.insecure_channel(tensors.grpc) as channel:
        described = ProtoReflectionDescriptorDatabase(channel)
        assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= set(described.get_services())
        pool = DescriptorPool(described)
        service = pool.FindServiceByName("inference.GRPCInferenceService")
        assert {"ModelInfer", "ModelStreamInfer"} <= {method.name for method in service.methods}
        choices = pool.FindMessageTypeByName("inference.InferParameter").fields
        assert {field.name for field in choices} == {"bool_param", "int64_param", "string_param", "double_param", "uint64_param"}


def test_health_of_grpc(tensors):
    with grpc.insecure_channel(tensors.grpc) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health.HealthCheckRequest.SerializeToString,
            response_deserializer=health.HealthCheckResponse.FromString,
        )
        assert check(health.HealthCheckRequest(service="mirror")).status == 1


def test_a_stream_of_prompts_tells_whose_each_answer_is(tensors, answers):
    """As Triton's clients of decoupled models do, which ask for no final responses."""
    asked = [(answer["messages"][0]["content"], answer["expected"]) for answer in answers if len(answer["messages"]) == 1][:2] * 2
    with triton_grpc.InferenceServerClient(tensors.grpc) as client:
        given = queue.Queue()
        client.start_stream(callback=lambda result, error: given.put((result, error)))
        for number, (question, _) in enumerate(asked):
            prompt = triton_grpc.InferInput("prompt", [1], "BYTES").set_data_from_numpy(np.array([question.encode()], dtype=np.object_))
            parameters = {"temperature": 0, "stream": True} if number == 0 else None
            client.async_stream_infer("text", [prompt], request_id=f"q{number}", parameters=parameters)
        texts, finished = {}, 0
        while finished < len(asked):
            result, error = given.get(timeout=30)
            assert error is None, error
            response = result.get_response()
            assert not response.parameters["triton_final_response"].bool_param
            if response.outputs[0].name == "text":
                texts[response.id] = texts.get(response.id, "") + result.as_numpy("text")[0].decode()
            else:
                finished += 1
        client.stop_stream()
    while not given.empty():
        result, error = given.get()
        assert error is None, error
        response = result.get_response()
        texts[response.id] = texts.get(response.id, "") + result.as_numpy("text")[0].decode()
    assert texts == {f"q{number}": expected for number, (_, expected) in enumerate(asked)}


def test_triton_reads_batches_of_images_as_its_image_client_does(serve_tensors, tmp_path):
    served = serve_tensors(tmp_path, {"images": IMAGES})
    with triton_http.InferenceServerClient(served.rest) as client:
        config = client.get_model_config("images")
        metadata = client.get_model_metadata("images")
    assert config["max_batch_size"] == 8 and not config["model_transaction_policy"]["decoupled"]
    assert config["input"][0]["format"] == "FORMAT_NCHW" and config["input"][0]["dims"] == [3, 4, 4]
    assert metadata["inputs"][0]["shape"] == [-1, 3, 4, 4]
    with triton_grpc.InferenceServerClient(served.grpc) as client:
        config = client.get_model_config("images").config
        assert (config.max_batch_size, config.model_transaction_policy.decoupled) == (8, False)
        assert config.input[0].format == model_config.ModelInput.FORMAT_NCHW and list(config.input[0].dims) == [3, 4, 4]
        image = triton_grpc.InferInput("image", [9, 3, 4, 4], "FP32")
        image.set_data_from_numpy(np.zeros((9, 3, 4, 4), dtype=np.float32))
        with pytest.raises(InferenceServerException, match="9 rows"):
            client.infer("images", [image])
