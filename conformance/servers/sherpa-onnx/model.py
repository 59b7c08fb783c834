"""Writes a streaming zipformer2-CTC model of random weights, as sherpa-onnx reads it: the same one each time.

Which token a frame of 40 ms has follows from its features and from what the chunk of 320 ms before has left in the state, so what a server
keeps of another session shows in the next one. Quiet frames are blank. It computes in 64 bits, so that the same audio gives the same tokens
in batches of any size.
"""

import pathlib
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import words

CHUNK, FEATURES, SUBSAMPLING = 32, 80, 4  # steps of 10 ms, values of each, steps for each frame
HIDDEN, STATE = 32, 16
TOKENS = ["<blk>"] + ["▁" + a + b for a in words.SYLLABLES[:12] for b in words.SYLLABLES[-12:]]
SPEECH = -11.0  # the mean log energy of a frame that is not quiet, at least

METADATA = {
    "encoder_dims": STATE, "query_head_dims": 4, "value_head_dims": 4, "num_heads": 1, "num_encoder_layers": 1, "cnn_module_kernels": 3,
    "left_context_len": 2, "T": CHUNK, "decode_chunk_len": CHUNK,
}
# The states of a zipformer with one layer, of which one is used.
STATES = {
    "cached_key": [2, "N", 4], "cached_nonlin_attn": [1, "N", 2, 3 * STATE // 4], "cached_val1": [2, "N", 4], "cached_val2": [2, "N", 4],
    "cached_conv1": ["N", STATE, 1], "cached_conv2": ["N", STATE, 1], "embed_states": ["N", 128, 3, 19], "processed_lens": ["N"],
}
USED = "cached_conv1"


def model():
    random, node = numpy.random.default_rng(29), helper.make_node
    frames, size = CHUNK // SUBSAMPLING, SUBSAMPLING * FEATURES
    say = random.normal(0, 1, (HIDDEN, len(TOKENS)))
    blank = numpy.eye(1, len(TOKENS))[0]
    say[:, 0] *= 4  # so that about every second frame of speech is blank
    weights = {
        "by_frame": numpy.array([-1, frames, size]), "row": numpy.array([-1, 1, STATE]), "column": numpy.array([-1, STATE, 1]),
        "hear": random.normal(0, 2 / size ** 0.5, (size, HIDDEN)), "recall": random.normal(0, 1 / STATE ** 0.5, (STATE, HIDDEN)),
        "say": say, "often": blank * HIDDEN ** 0.5 * 2, "blank": blank * 1e3, "speech": numpy.array(SPEECH),
        "keep": random.normal(0, 1, (HIDDEN, STATE)),
    }
    nodes = [
        node("Cast", ["x"], ["wide"], to=TensorProto.DOUBLE),
        node("Reshape", ["wide", "by_frame"], ["frame"]),
        node("ReduceMean", ["frame"], ["level"], axes=[2], keepdims=1),
        node("Sub", ["frame", "level"], ["colour"]),
        node("MatMul", ["colour", "hear"], ["heard"]),
        node("Cast", [USED], ["state"], to=TensorProto.DOUBLE),
        node("Reshape", ["state", "row"], ["before"]),
        node("MatMul", ["before", "recall"], ["recalled"]),
        node("Add", ["heard", "recalled"], ["both"]),
        node("Tanh", ["both"], ["hidden"]),
        node("MatMul", ["hidden", "say"], ["said"]),
        node("Sub", ["speech", "level"], ["lower"]),
        node("Relu", ["lower"], ["quiet"]),
        node("Mul", ["quiet", "blank"], ["hushed"]),
        node("Add", ["said", "often"], ["rarer"]),
        node("Add", ["rarer", "hushed"], ["logits"]),
        node("LogSoftmax", ["logits"], ["sure"], axis=2),
        node("Cast", ["sure"], ["log_probs"], to=TensorProto.FLOAT),
        node("ReduceMean", ["heard"], ["mean"], axes=[1], keepdims=0),
        node("MatMul", ["mean", "keep"], ["mixed"]),
        node("Tanh", ["mixed"], ["kept"]),
        node("Reshape", ["kept", "column"], ["left"]),
        node("Cast", ["left"], ["new_" + USED], to=TensorProto.FLOAT),
    ]
    nodes += [node("Identity", [name], ["new_" + name]) for name in STATES if name != USED]
    tensor = helper.make_tensor_value_info
    kinds = {name: TensorProto.INT64 if name == "processed_lens" else TensorProto.FLOAT for name in STATES}
    graph = helper.make_graph(
        nodes, "zipformer2_ctc",
        [tensor("x", TensorProto.FLOAT, ["N", CHUNK, FEATURES])] + [tensor(n, kinds[n], shape) for n, shape in STATES.items()],
        [tensor("log_probs", TensorProto.FLOAT, ["N", frames, len(TOKENS)])] + [tensor("new_" + n, kinds[n], shape) for n, shape in STATES.items()],
        [numpy_helper.from_array(value, name) for name, value in weights.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(made, {"model_type": "zipformer2", **{key: str(value) for key, value in METADATA.items()}})
    onnx.checker.check_model(made)
    return made


def write(folder):
    """Writes the model and its tokens to a folder, from which other servers may be reading them, and returns their paths."""
    tokens = "".join(f"{token} {i}\n" for i, token in enumerate(TOKENS))
    paths = []
    for name, content in ("model.onnx", model().SerializeToString()), ("tokens.txt", tokens.encode()):
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as new:
            new.write(content)
        paths.append(pathlib.Path(new.name).replace(pathlib.Path(folder) / name))
    return paths
