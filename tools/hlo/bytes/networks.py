# SPDX-License-Identifier: Apache-2.0
"""Programs of neural networks: layers, forms of attention, training steps."""
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

from collectives import all_gather, all_reduce, all_to_all, reduce_scatter
from program import Arg, program

# Layers


@program("layer-norm", "layers", Arg((2048, 1024), P("x", "y")), Arg((1024,), P("y")), Arg((1024,), P("y")), out=P("x", "y"),
         bound=2 * all_reduce(512 * 4, 2), why="an all-reduce of a mean and of a variance for each row")
def layer_norm(x, scale, shift):
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


@program("batch-norm", "layers", Arg((64, 32, 32, 64), P("x")), Arg((64,), P()), Arg((64,), P()), out=P("x"),
         bound=2 * all_reduce(64 * 4, 4), why="an all-reduce of a mean and of a variance for each channel")
def batch_norm(x, scale, shift):
    mean = jnp.mean(x, (0, 1, 2))
    variance = jnp.mean((x - mean) ** 2, (0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


@program("cross-entropy-split-vocabulary", "layers", Arg((2048, 8192), P("x", "y")), Arg((2048,), P("x"), "ints", 8192), out=P(),
         bound=3 * all_reduce(512 * 4, 2) + all_reduce(4, 4),
         why="all-reduces of each row's maximum, sum and labelled logit, and of the mean")
def cross_entropy(logits, labels):
    return jnp.mean(jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, labels[:, None], -1)[:, 0])


EXPERTS, TOKENS, WIDTH = 8, 2048, 256
ROUTED = 2 * TOKENS // 4 * WIDTH * 4  # places for twice the tokens of a device


def mixture(x, router, up, down):
    """Top-1 experts of fixed capacity, dispatched and combined by one-hot products."""
    capacity = 2 * x.shape[0] // EXPERTS
    gates = jax.nn.softmax(x @ router)
    chosen = jax.nn.one_hot(jnp.argmax(gates, -1), EXPERTS)
    place = jnp.cumsum(chosen, 0) * chosen - 1
    dispatch = jax.nn.one_hot(place, capacity) * (chosen * (place < capacity))[..., None]
    inputs = jnp.einsum("tec,td->ecd", dispatch, x)
    outputs = jnp.einsum("ecf,efd->ecd", jax.nn.gelu(jnp.einsum("ecd,edf->ecf", inputs, up)), down)
    return jnp.einsum("tec,ecd->td", dispatch * jnp.sum(gates * chosen, -1)[:, None, None], outputs)


@program("mixture-of-experts", "layers", Arg((TOKENS, WIDTH), P("x")), Arg((WIDTH, EXPERTS)),
         Arg((EXPERTS, WIDTH, 512), P("x", None, "y"), scale=0.05), Arg((EXPERTS, 512, WIDTH), P("x", "y"), scale=0.05), out=P("x"),
         rtol=1e-3, bound=2 * all_to_all(ROUTED, 4) + all_reduce(ROUTED, 2),
         why="all-to-alls of the experts' inputs and outputs over x, an all-reduce of the outputs over y")
def _(x, router, up, down):
    return mixture(x, router, up, down)


# Attention: batch 4, 1024 positions, 8 heads of 64

QKV = tuple(Arg((4, 1024, 8, 64), P(None, "x")) for _ in range(3))
SEQUENCE = 4 * 256 * 8 * 64 * 4  # a device's keys, where the sequence is split over x
HEADS = tuple(Arg((4, 1024, 8, 64), P("x", None, "y")) for _ in range(3))


def attention(q, k, v, causal=False):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


@program("attention-heads", "attention", *HEADS, out=P("x", None, "y"), bound=0, why="a device has its heads whole")
def _(q, k, v):
    return attention(q, k, v)


@program("attention-sequence", "attention", *QKV, out=P(None, "x"), bound=4 * all_to_all(SEQUENCE, 4),
         why="all-to-alls of queries, keys, values and results, so that a device has heads whole")
def _(q, k, v):
    return attention(q, k, v)


@program("attention-causal-gradient", "attention", *QKV, QKV[0], out=(P(None, "x"),) * 3, bound=7 * all_to_all(SEQUENCE, 4),
         why="all-to-alls of queries, keys, values, cotangent and three gradients")
def _(q, k, v, g):
    return jax.vjp(lambda q, k, v: attention(q, k, v, causal=True), q, k, v)[1](g)


@program("attention-decode", "attention", Arg((8, 1, 8, 64), P("y")), Arg((8, 2048, 8, 64), P("y", "x")),
         Arg((8, 2048, 8, 64), P("y", "x")), Arg((), P(), "ints", 2048), out=(P("y"), P("y", "x"), P("y", "x")),
         bound=all_reduce(4 * 8 * 64 * 4, 4) + 2 * all_reduce(4 * 8 * 4, 4),
         why="all-reduces of the output, and of a maximum and a sum for each head")
def _(q, keys, values, at):
    keys = lax.dynamic_update_slice_in_dim(keys, q, at, 1)
    values = lax.dynamic_update_slice_in_dim(values, 2 * q, at, 1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, keys) / 8
    scores = jnp.where(jnp.arange(2048) <= at, scores, -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), values), keys, values


@program("attention-local", "attention", *QKV, out=P(None, "x"), bound=2 * 4 * 64 * 8 * 64 * 4,
         why="keys and values of the window of 64 before a device's first")
def _(q, k, v):
    blocks = lambda a: a.reshape(4, 16, 64, 8, 64)
    with_before = lambda a: jnp.concatenate([jnp.roll(blocks(a), 1, 1), blocks(a)], 2)
    scores = jnp.einsum("bnqhd,bnkhd->bnhqk", blocks(q), with_before(k)) / 8
    return jnp.einsum("bnhqk,bnkhd->bnqhd", jax.nn.softmax(scores), with_before(v)).reshape(q.shape)


@program("attention-linear", "attention", *QKV, out=P(None, "x"), bound=all_reduce(4 * 8 * 64 * 65 * 4, 4),
         why="an all-reduce of the sums over keys")
def _(q, k, v):
    q, k = jax.nn.softmax(q), jax.nn.softmax(k)
    state = jnp.einsum("bkhd,bkhe->bhde", k, v)
    return jnp.einsum("bqhd,bhde->bqhe", q, state) / jnp.einsum("bqhd,bhd->bqh", q, jnp.sum(k, 1))[..., None]


# q, k and v, or a gate and what it gates, are the columns of one matrix, cut where its shards do not end.
ROWS = Arg((16, 128, 256), P("x"))
SUMMED = all_reduce(4 * 128 * 256 * 4, 2)  # of what a device's heads or columns make
FUSED = Arg((256, 768), P(None, "y"), scale=0.06), Arg((768,), P("y")), Arg((256, 256), P("y"), scale=0.06)
GATED = Arg((256, 2048), P(None, "y"), scale=0.06), Arg((1024, 256), P("y"), scale=0.03)


def by_split(y):
    return (part.reshape(16, 128, 8, 32) for part in jnp.split(y, 3, -1))


def by_reshape(y):
    return jnp.moveaxis(y.reshape(16, 128, 3, 8, 32), 2, 0)


def fused_attention(parts, x, qkv, bias, out):
    return attention(*parts(x @ qkv + bias)).reshape(16, 128, 256) @ out


for name, parts in ("qkv-split", by_split), ("qkv-reshape", by_reshape):
    program(name, "attention", ROWS, *FUSED, out=P("x"), bound=(256 + 1) * 128 * 4 + SUMMED,
            why="a third of a device's columns of the matrix and the bias, an all-reduce of the result over y"
            )(functools.partial(fused_attention, parts))


GROUPED = Arg((256, 384), P(None, "y"), scale=0.06), Arg((256, 256), P("y"), scale=0.06)


@program("qkv-grouped", "attention", ROWS, *GROUPED, out=P("x"), bound=256 * 64 * 4 + SUMMED,
         why="a third of a device's columns of the matrix, an all-reduce of the result over y")
def _(x, qkv, out):
    """Eight heads of queries, two of keys and values, each for four of them."""
    q, k, v = (part.reshape(16, 128, -1, 32) for part in jnp.split(x @ qkv, [256, 320], -1))
    return attention(q, jnp.repeat(k, 4, 2), jnp.repeat(v, 4, 2)).reshape(16, 128, 256) @ out


@program("gated-mlp", "layers", ROWS, *GATED, out=P("x"), bound=256 * 512 * 4 + SUMMED,
         why="half of a device's columns of the matrix, an all-reduce of the result over y")
def gated(x, into, down):
    gate, up = jnp.split(x @ into, 2, -1)
    return jax.nn.silu(gate) * up @ down


# Training steps: parameters come back updated and split as they came


def specs(args):
    return jax.tree.map(lambda a: a.spec, args, is_leaf=lambda a: isinstance(a, Arg))


def sgd(loss, parameters, *data):
    value, gradient = jax.value_and_grad(loss)(parameters, *data)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient)


def perceptron(parameters, x, y):
    hidden = jax.nn.relu(x @ parameters["up"])
    return jnp.mean((hidden @ parameters["down"] - y) ** 2)


BATCH = Arg((1024, 256), P("x"))
MODEL_SPLIT = {"up": Arg((256, 1024), P(None, "y"), scale=0.05), "down": Arg((1024, 256), P("y"), scale=0.05)}
FULLY_SPLIT = {"up": Arg((256, 1024), P("x", "y"), scale=0.05), "down": Arg((1024, 256), P("y", "x"), scale=0.05)}
WEIGHTS = 256 * 512 * 4  # of a device's half of "up" or "down"


@program("mlp-step", "training", MODEL_SPLIT, BATCH, BATCH, out=(P(), specs(MODEL_SPLIT)),
         bound=2 * all_reduce(WEIGHTS, 4) + all_reduce(256 * 256 * 4, 2) + all_reduce(4, 4),
         why="all-reduces of both gradients over x, of the activations over y, and of the loss")
def _(parameters, x, y):
    return sgd(perceptron, parameters, x, y)


@program("mlp-step-fully-split", "training", FULLY_SPLIT, BATCH, BATCH, out=(P(), specs(FULLY_SPLIT)),
         bound=2 * all_gather(WEIGHTS // 4, 4) + 2 * reduce_scatter(WEIGHTS // 4, 4) + all_reduce(256 * 256 * 4, 2) + all_reduce(4, 4),
         why="weights gathered and gradients scattered over x, activations summed over y, and the loss")
def _(parameters, x, y):
    return sgd(perceptron, parameters, x, y)


@program("adam-step-with-clipping", "training", MODEL_SPLIT, MODEL_SPLIT, jax.tree.map(
    lambda a: Arg(a.shape, a.spec, "uniform"), MODEL_SPLIT, is_leaf=lambda a: isinstance(a, Arg)), BATCH, BATCH,
         out=(P(),) + (specs(MODEL_SPLIT),) * 3, rtol=1e-3,
         bound=2 * all_reduce(WEIGHTS, 4) + all_reduce(256 * 256 * 4, 2) + all_reduce(4, 4) + all_reduce(4, 2),
         why="as mlp-step, and the gradients' norm")
def _(parameters, first, second, x, y):
    value, gradient = jax.value_and_grad(perceptron)(parameters, x, y)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradient)))
    gradient = jax.tree.map(lambda g: g * jnp.minimum(1.0, 1 / norm), gradient)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g * g, second, gradient)
    step = lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-2)
    return value, jax.tree.map(step, parameters, first, second), first, second


@program("qkv-split-step", "training", FUSED, ROWS, out=(P(), specs(FUSED)),
         bound=2 * (256 + 1) * 128 * 4 + SUMMED + all_reduce((256 * 384 + 384 + 128 * 256) * 4, 4) + all_reduce(4, 4),
         why="a third of a device's columns, and of their gradients; all-reduces of the result over y, of the gradients over x, "
             "and of the loss")
def _(parameters, x):
    return sgd(lambda p, x: jnp.mean(fused_attention(by_split, x, *p) ** 2), parameters, x)


CONVOLUTIONS = {"first": Arg((3, 3, 3, 32), scale=0.2), "second": Arg((3, 3, 32, 64), scale=0.05),
                "scale": Arg((32,)), "shift": Arg((32,)), "head": Arg((64, 10), scale=0.1)}
CONVOLUTION_PARAMETERS = 9 * 3 * 32 + 9 * 32 * 64 + 2 * 32 + 640


@program("convnet-step", "training", CONVOLUTIONS, Arg((64, 32, 32, 3), P(("x", "y"))), Arg((64,), P(("x", "y")), "ints", 10),
         out=(P(), specs(CONVOLUTIONS)), rtol=1e-3,
         bound=all_reduce((CONVOLUTION_PARAMETERS + 1 + 4 * 32) * 4, 8),
         why="all-reduces of the gradients, the loss, and four sums of each channel's normalisation")
def _(parameters, x, labels):
    convolve = lambda x, k, s: lax.conv_general_dilated(x, k, (s, s), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def loss(p, x, labels):
        hidden = jax.nn.relu(batch_norm(convolve(x, p["first"], 1), p["scale"], p["shift"]))
        hidden = lax.reduce_window(hidden, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return cross_entropy(jnp.mean(jax.nn.relu(convolve(hidden, p["second"], 2)), (1, 2)) @ p["head"], labels)

    return sgd(loss, parameters, x, labels)


EXPERT_LAYER = {"router": Arg((WIDTH, EXPERTS), scale=0.3), "up": Arg((EXPERTS, WIDTH, 512), P("x", None, "y"), scale=0.05),
                "down": Arg((EXPERTS, 512, WIDTH), P("x", "y"), scale=0.05)}


@program("mixture-of-experts-step", "training", EXPERT_LAYER, Arg((TOKENS, WIDTH), P("x")), out=(P(), specs(EXPERT_LAYER)),
         rtol=1e-3, bound=4 * all_to_all(ROUTED, 4) + 2 * all_reduce(ROUTED, 2),
         why="all-to-alls over x of the experts' inputs, outputs and their cotangents, all-reduces over y of what two products sum")
def _(parameters, x):
    return sgd(lambda p, x: jnp.mean((mixture(x, p["router"], p["up"], p["down"]) - x) ** 2), parameters, x)


RECURRENT = {"in": Arg((128, 768), P(None, "y"), scale=0.05), "state": Arg((256, 768), P(None, "y"), scale=0.05)}


@program("gru-step", "training", RECURRENT, Arg((16, 256, 128), P(None, "x")), out=(P(), specs(RECURRENT)), rtol=1e-3, loop=16)
def _(parameters, x):
    def cell(p, h, x):
        r, z, n = jnp.split(x @ p["in"], 3, -1)
        a, b, c = jnp.split(h @ p["state"], 3, -1)
        z, n = jax.nn.sigmoid(z + b), jnp.tanh(n + jax.nn.sigmoid(r + a) * c)
        return (1 - z) * n + z * h

    def loss(p, x):
        h, _ = lax.scan(lambda h, x: (cell(p, h, x), None), jnp.zeros((x.shape[1], 256)), x)
        return jnp.mean(h * h)

    return sgd(loss, parameters, x)


# A transformer of 2 blocks, width 256, vocabulary of 2048; 16 sequences of 128, split over x

DEPTH, MODEL, VOCABULARY = 2, 256, 2048


def transformer_arguments(split):
    """Parameters split over y alone, or over both axes."""
    x = "x" if split else None
    block = {"qkv": Arg((DEPTH, MODEL, 3, 8, 32), P(None, x, None, "y"), scale=0.04),
             "out": Arg((DEPTH, 8, 32, MODEL), P(None, "y", None, x), scale=0.04),
             "up": Arg((DEPTH, MODEL, 1024), P(None, x, "y"), scale=0.04), "down": Arg((DEPTH, 1024, MODEL), P(None, "y", x), scale=0.04),
             "norm": Arg((DEPTH, 2, MODEL))}
    return {"blocks": block, "embedding": Arg((VOCABULARY, MODEL), P("y", x), scale=0.04)}


def transformer_loss(p, tokens, layers, activations):
    """`layers` applies a block with each block's parameters; `activations` may say how what goes between blocks is split."""
    h = activations(p["embedding"][tokens])

    def block(h, p):
        q, k, v = jnp.moveaxis(jnp.einsum("bsd,dnhe->bsnhe", layer_norm(h, p["norm"][0], 0.0), p["qkv"]), 2, 0)
        h = h + jnp.einsum("bshe,hed->bsd", attention(q, k, v, causal=True), p["out"])
        return activations(h + jax.nn.gelu(layer_norm(h, p["norm"][1], 0.0) @ p["up"]) @ p["down"])

    h = layers(block, h, p["blocks"])
    logits = jnp.einsum("bsd,vd->bsv", h[:, :-1], p["embedding"])
    return cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))


def unrolled(block, h, parameters):
    for i in range(DEPTH):
        h = block(h, jax.tree.map(lambda a: a[i], parameters))
    return h


def scanned(block, h, parameters):
    return lax.scan(lambda h, p: (block(h, p), None), h, parameters)[0]


TOKEN_IDS = Arg((16, 128), P("x"), "ints", VOCABULARY)
ACTIVATIONS = 4 * 128 * MODEL * 4
HALF_PARAMETERS = (DEPTH * 12 * MODEL * MODEL + VOCABULARY * MODEL) * 4 // 2  # of a device along y

def transformer_step(layers, constrained, mesh, p, tokens):
    by_batch = NamedSharding(mesh, P("x"))
    activations = (lambda h: lax.with_sharding_constraint(h, by_batch)) if constrained else lambda h: h
    return sgd(functools.partial(transformer_loss, layers=layers, activations=activations), p, tokens)


for name, split, layers, constrained in (
        ("gpt-step", False, unrolled, False), ("gpt-step-fully-split", True, unrolled, True),
        ("gpt-step-unconstrained", True, unrolled, False), ("gpt-step-scanned", True, scanned, True)):
    model = transformer_arguments(split)
    program(name, "training", model, TOKEN_IDS, out=(P(), specs(model)), rtol=1e-3, loop=DEPTH, meshed=True,
            bound=all_reduce(HALF_PARAMETERS, 4) + (4 * DEPTH + 2) * all_reduce(ACTIVATIONS, 2),
            why="weights gathered and gradients scattered over x (as much as all-reduces), activations summed over y")(
        functools.partial(transformer_step, layers, constrained))


@program("psum_scatter-map", "training", Arg((2048, 512), P("x")), Arg((512, 512), P("y")), out=P("x", "y"), meshed=True,
         bound=all_gather(256 * 512 * 4, 2), why="the other half of the matrix")
def _(mesh, x, w):
    gather = lambda x, w: x @ lax.all_gather(w, "y", tiled=True)
    h = jax.shard_map(gather, mesh=mesh, in_specs=(P("x"), P("y")), out_specs=P("x"), check_vma=False)(x, w)
    return lax.with_sharding_constraint(jnp.tanh(h), NamedSharding(mesh, P("x", "y")))
