"""What the clients of OpenVINO Model Server's MediaPipe demos do with `tritonclient`, on graphs with the demos' streams.

The graphs have the nodes of this project where the demos have those of MediaPipe and OpenCV.
"""

import queue
import threading
import time

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton
from onnx import TensorProto, helper

# `multi_model_graph`: two models, one after the other, as the demo writes them.
TWO_MODELS = """
input_stream: "in1"
input_stream: "in2"
output_stream: "out"
node {
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:dummy"
  node_options: {
    [type.googleapis.com / mediapipe.ModelAPIOVMSSessionCalculatorOptions]: { servable_name: "dummy" servable_version: "1" }
  }
}
node {
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:add"
  node_options: {
    [type.googleapis.com / mediapipe.OpenVINOModelServerSessionCalculatorOptions]: { servable_name: "add" servable_version: "1" }
  }
}
node {
  calculator: "OpenVINOInferenceCalculator"
  input_side_packet: "SESSION:dummy"
  input_stream: "DUMMY_IN:in1"
  output_stream: "DUMMY_OUT:dummy_output"
  node_options: {
    [type.googleapis.com / mediapipe.OpenVINOInferenceCalculatorOptions]: {
      tag_to_input_tensor_names { key: "DUMMY_IN" value: "b" }
      tag_to_output_tensor_names { key: "DUMMY_OUT" value: "a" }
    }
  }
}
node {
  calculator: "OpenVINOInferenceCalculator"
  input_side_packet: "SESSION:add"
  input_stream: "ADD_INPUT1:dummy_output"
  input_stream: "ADD_INPUT2:in2"
  output_stream: "SUM:out"
  node_options: {
    [type.googleapis.com / mediapipe.OpenVINOInferenceCalculatorOptions]: {
      tag_to_input_tensor_names { key: "ADD_INPUT1" value: "input1" }
      tag_to_input_tensor_names { key: "ADD_INPUT2" value: "input2" }
      tag_to_output_tensor_names { key: "SUM" value: "sum" }
    }
  }
}
"""

# `image_classification`: one model between a stream in and a stream out.
CLASSES = """
input_stream: "in"
output_stream: "out"
node {
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:session"
  node_options: {
    [type.googleapis.com / mediapipe.OpenVINOModelServerSessionCalculatorOptions]: { servable_name: "classes" servable_version: "1" }
  }
}
node {
  calculator: "OpenVINOInferenceCalculator"
  input_side_packet: "SESSION:session"
  input_stream: "OVTENSOR:in"
  output_stream: "OVTENSOR:out"
  node_options: {
    [type.googleapis.com / mediapipe.OpenVINOInferenceCalculatorOptions]: {
      tag_to_input_tensor_names { key: "OVTENSOR" value: "data" }
      tag_to_output_tensor_names { key: "OVTENSOR" value: "prob" }
    }
  }
}
"""

# `object_detection`, `holistic_tracking`, `iris_tracking`, `object_tracking`: a picture in, a picture out.
PICTURES = """
input_stream: "IMAGE:{input}"
output_stream: "IMAGE:output"
node {{
  calculator: "ImageResizeCalculator"
  input_stream: "IMAGE:{input}"
  output_stream: "IMAGE:output"
  node_options {{
    [type.googleapis.com/graphmill.ImageResizeCalculatorOptions] {{ width: {width} height: {height} }}
  }}
}}
"""


def save(folder, name, nodes, inputs, outputs, constants=()):
    def tensor(port):
        return helper.make_tensor_value_info(port[0], TensorProto.FLOAT, port[1])

    graph = helper.make_graph(nodes, name, list(map(tensor, inputs)), list(map(tensor, outputs)), list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / name / "1").mkdir(parents=True)
    onnx.save(model, folder / name / "1" / "model.onnx")


@pytest.fixture(scope="module")
def demos(tmp_path_factory, serve_tensors):
    folder = tmp_path_factory.mktemp("demos")
    graphs = {
        "dummyAdd": TWO_MODELS,
        "resnetMediapipe": CLASSES,
        "objectDetection": PICTURES.format(input="input", width=320, height=320),
        "holisticTracking": PICTURES.format(input="first_input_video", width=96, height=64),
    }
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    ten = [1, 10]
    save(folder / "dummyAdd", "dummy", [helper.make_node("Add", ["b", "one"], ["a"])], [("b", ten)], [("a", ten)], [one])
    save(folder / "dummyAdd", "add", [helper.make_node("Add", ["input1", "input2"], ["sum"])], [("input1", ten), ("input2", ten)], [("sum", ten)])
    # The class of a picture is its brightest channel.
    nodes = [helper.make_node("GlobalMaxPool", ["data"], ["most"]), helper.make_node("Flatten", ["most"], ["prob"])]
    save(folder / "resnetMediapipe", "classes", nodes, [("data", [1, 3, 224, 224])], [("prob", [1, 3])])
    yield serve_tensors(folder, graphs)


@pytest.fixture
def client(demos):
    with triton.InferenceServerClient(demos.grpc) as client:
        yield client


def picture(height=64, width=96):
    """A picture of three channels, one byte each, as OpenCV reads it."""
    return np.random.default_rng(7).integers(0, 256, (height, width, 3), dtype=np.uint8)


def tensor(name, data, datatype):
    return triton.InferInput(name, data.shape, datatype).set_data_from_numpy(data)


def test_two_models(client):
    data = np.arange(1, 11, dtype=np.float32).reshape(1, 10)
    answer = client.infer(model_name="dummyAdd", inputs=[tensor("in1", data, "FP32"), tensor("in2", data, "FP32")], outputs=[])
    assert np.array_equal(answer.as_numpy("out"), 2 * data + 1)


def test_classes_of_pictures(client):
    for channel in range(3):
        data = np.zeros((1, 3, 224, 224), dtype=np.float32)
        data[0, channel, 100, 100] = 255
        answer = client.infer("resnetMediapipe", [tensor("in", data, "FP32")], outputs=[triton.InferRequestedOutput("out")])
        assert np.argmax(answer.as_numpy("out"), axis=1).tolist() == [channel]


def test_pictures_become_pictures(client):
    found = client.infer("objectDetection", [tensor("input", picture(), "UINT8")], outputs=[triton.InferRequestedOutput("output")])
    assert found.as_numpy("output").shape == (320, 320, 3) and found.as_numpy("output").dtype == np.uint8
    # A picture of the size that is wanted stays as it is.
    found = client.infer("holisticTracking", [tensor("first_input_video", picture(), "UINT8")], outputs=[triton.InferRequestedOutput("output")])
    assert np.array_equal(found.as_numpy("output"), picture())


def test_frames_of_a_video_in_a_stream(client):
    """As the streaming clients do it: times in microseconds, four frames on their way, answers told by their time."""
    answers, free = queue.Queue(), threading.Semaphore(4)

    def answered(result, error):
        answers.put((result, error))
        free.release()

    client.start_stream(answered)
    sent = []
    for number in range(30):
        assert free.acquire(timeout=30)
        sent.append(int(time.monotonic() * 1e6) + number)
        frame = np.full((64, 96, 3), number, dtype=np.uint8)
        client.async_stream_infer("holisticTracking", [tensor("first_input_video", frame, "UINT8")], parameters={"OVMS_MP_TIMESTAMP": sent[-1]})
    for number, timestamp in enumerate(sent):
        result, error = answers.get(timeout=30)
        assert error is None, error
        assert result.get_response().parameters["OVMS_MP_TIMESTAMP"].int64_param == timestamp
        assert np.all(result.as_numpy("output") == number)
    client.stop_stream()


def test_frames_of_a_video_one_by_one(client):
    """As the same clients do it without a stream: requests that do not wait for each other."""
    answers = queue.Queue()
    for number in range(30):
        frame = np.full((64, 96, 3), number, dtype=np.uint8)
        client.async_infer("holisticTracking", [tensor("first_input_video", frame, "UINT8")], lambda result, error, number=number: answers.put((number, result, error)))
    seen = set()
    for _ in range(30):
        number, result, error = answers.get(timeout=30)
        assert error is None, error
        assert np.all(result.as_numpy("output") == number)
        seen.add(number)
    assert seen == set(range(30))
