"""Trains the digit classifier on scikit-learn's digits, and writes model.onnx and samples/*.png.

The network is small enough for numpy: two convolutions, each with a maximum over 2x2 pixels behind
it, and two dense layers. Training takes some minutes of one core.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from scipy import ndimage
from sklearn.datasets import load_digits

HERE = Path(__file__).parent
SIDE = 16  # pixels that the model sees
CHANNELS = (16, 32)
HIDDEN = 96
EPOCHS = 30
BATCH = 64


def enlarge(image):
    """8x8 pixels with values up to 16 as SIDE x SIDE from 0 to 1: ink is 1."""
    return np.clip(ndimage.zoom(image / 16.0, SIDE / 8, order=1), 0, 1).astype(np.float32)


def vary(rng, image):
    """The same digit turned, scaled, slanted, moved, with thicker or thinner ink."""
    angle, scale = rng.uniform(-0.25, 0.25), rng.uniform(0.8, 1.25, 2)
    slant = rng.uniform(-0.25, 0.25)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    matrix = turn @ np.array([[1, slant], [0, 1]]) @ np.diag(1 / scale)
    middle = np.full(2, (SIDE - 1) / 2)
    offset = middle - matrix @ (middle + rng.uniform(-1.5, 1.5, 2))
    image = ndimage.affine_transform(image, matrix, offset, order=1)
    image = ndimage.gaussian_filter(image, rng.uniform(0, 0.7)) * rng.uniform(0.8, 1.5)
    return np.clip(image + rng.normal(0, 0.03, image.shape), 0, 1).astype(np.float32)


def columns(x):
    """The 3x3 surroundings of each pixel: [n, h, w, channels * 9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    n, c, h, w = x.shape
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


class Convolution:
    """3x3, then ReLU, then the maximum of 2x2."""

    def __init__(self, rng, before, after):
        self.weight = rng.normal(0, np.sqrt(2 / (before * 9)), (before * 9, after)).astype(np.float32)
        self.bias = np.zeros(after, np.float32)

    def forward(self, x):
        self.shape, self.columns = x.shape, columns(x)
        y = np.maximum(self.columns @ self.weight + self.bias, 0)
        n, h, w, c = y.shape
        cells = y.reshape(n, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 5, 2, 4).reshape(n, h // 2, w // 2, c, 4)
        self.chosen = cells.argmax(-1)
        pooled = cells.max(-1)
        self.positive = pooled > 0
        return pooled.transpose(0, 3, 1, 2)

    def backward(self, grad):
        grad = grad.transpose(0, 2, 3, 1) * self.positive
        n, h, w, c = grad.shape
        cells = np.zeros((n, h, w, c, 4), np.float32)
        np.put_along_axis(cells, self.chosen[..., None], grad[..., None], -1)
        grad = cells.reshape(n, h, w, c, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(-1, c)
        self.grads = [self.columns.reshape(grad.shape[0], -1).T @ grad, grad.sum(0)]
        n, c, h, w = self.shape
        back = (grad @ self.weight.T).reshape(n, h, w, c, 3, 3)
        padded = np.zeros((n, c, h + 2, w + 2), np.float32)
        for row in range(3):
            for column in range(3):
                padded[:, :, row : row + h, column : column + w] += back[..., row, column].transpose(0, 3, 1, 2)
        return padded[:, :, 1:-1, 1:-1]


class Dense:
    def __init__(self, rng, before, after, relu):
        self.weight = rng.normal(0, np.sqrt(2 / before), (before, after)).astype(np.float32)
        self.bias, self.relu = np.zeros(after, np.float32), relu

    def forward(self, x):
        self.shape, self.x = x.shape, x.reshape(len(x), -1)
        y = self.x @ self.weight + self.bias
        self.positive = y > 0 if self.relu else np.ones_like(y, bool)
        return y * self.positive

    def backward(self, grad):
        grad = grad * self.positive
        self.grads = [self.x.T @ grad, grad.sum(0)]
        return (grad @ self.weight.T).reshape(self.shape)


def network(rng):
    inner = CHANNELS[1] * (SIDE // 4) ** 2
    return [
        Convolution(rng, 1, CHANNELS[0]),
        Convolution(rng, *CHANNELS),
        Dense(rng, inner, HIDDEN, relu=True),
        Dense(rng, HIDDEN, 10, relu=False),
    ]


def forward(layers, x):
    for layer in layers:
        x = layer.forward(x)
    return x


def train(rng, images, digits):
    layers = network(rng)
    moments = [[(np.zeros_like(p), np.zeros_like(p)) for p in (it.weight, it.bias)] for it in layers]
    step = 0
    for epoch in range(EPOCHS):
        rate, losses = 2e-3 * (1 - epoch / EPOCHS), []
        for chosen in np.array_split(rng.permutation(len(images)), len(images) // BATCH):
            x = np.stack([vary(rng, image) for image in images[chosen]])[:, None]
            scores = forward(layers, x)
            shares = np.exp(scores - scores.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            losses.append(-np.log(shares[np.arange(len(x)), digits[chosen]] + 1e-9).mean())
            shares[np.arange(len(x)), digits[chosen]] -= 1
            grad, step = shares / len(x), step + 1
            for layer in reversed(layers):
                grad = layer.backward(grad)
            for layer, moment in zip(layers, moments):  # Adam
                for value, g, (m, v) in zip((layer.weight, layer.bias), layer.grads, moment):
                    m += 0.1 * (g - m)
                    v += 0.001 * (g * g - v)
                    value -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        print(f"epoch {epoch}: loss {np.mean(losses):.3f}", flush=True)
    return layers


def export(layers, path):
    """The network in ONNX, ten scores an image; a softmax is left to who wants one."""
    first, second, hidden, last = layers
    weights, nodes, x = [], [], "image"

    def weight(name, value):
        weights.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name))
        return name

    for number, (layer, before) in enumerate([(first, 1), (second, CHANNELS[0])]):
        kernel = layer.weight.T.reshape(-1, before, 3, 3)
        inputs = [x, weight(f"kernel{number}", kernel), weight(f"bias{number}", layer.bias)]
        nodes.append(helper.make_node("Conv", inputs, [f"conv{number}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"conv{number}"], [f"relu{number}"]))
        x = f"pool{number}"
        nodes.append(helper.make_node("MaxPool", [f"relu{number}"], [x], kernel_shape=[2, 2], strides=[2, 2]))
    nodes.append(helper.make_node("Flatten", [x], ["flat"]))
    inputs = ["flat", weight("hidden_weight", hidden.weight), weight("hidden_bias", hidden.bias)]
    nodes.append(helper.make_node("Gemm", inputs, ["hidden"]))
    nodes.append(helper.make_node("Relu", ["hidden"], ["hidden_relu"]))
    inputs = ["hidden_relu", weight("last_weight", last.weight), weight("last_bias", last.bias)]
    nodes.append(helper.make_node("Gemm", inputs, ["scores"]))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, SIDE, SIDE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])],
        weights,
    )
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, producer_name="graphmill demo", opset_imports=[opset], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def sample(image, path):
    """A digit as people draw it: dark ink on white paper, 64x64 pixels."""
    ink = np.clip(ndimage.zoom(image / 16.0, 6, order=3), 0, 1)
    page = np.pad(255 - (ink * 235).astype(np.uint8), 8, constant_values=255)
    Image.fromarray(page).save(path, optimize=True)


def main():
    rng = np.random.default_rng(1)
    data = load_digits()
    order = rng.permutation(len(data.images))
    held, used = order[:300], order[300:]
    images = np.stack([enlarge(it) for it in data.images])
    layers = train(rng, images[used], data.target[used])
    guesses = forward(layers, images[held][:, None]).argmax(1)
    print(f"right of {len(held)} that were not trained on: {(guesses == data.target[held]).sum()}")
    export(layers, HERE / "model.onnx")
    (HERE / "samples").mkdir(exist_ok=True)
    for digit in range(10):
        # One that the network reads: some of those that were held out are hard for people, too.
        chosen = next(it for it, guess in zip(held, guesses) if data.target[it] == digit == guess)
        sample(data.images[chosen], HERE / "samples" / f"{digit}.png")


if __name__ == "__main__":
    main()
