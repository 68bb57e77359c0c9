# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from record import rand

ACTIVATIONS = ["relu", "relu6", "sigmoid", "softplus", "sparse_plus", "soft_sign", "silu", "swish", "log_sigmoid", "leaky_relu", "hard_sigmoid", "hard_silu", "hard_tanh", "elu", "celu", "selu", "gelu", "glu", "squareplus", "mish", "softmax", "log_softmax", "logsumexp", "standardize", "identity", "sparse_sigmoid"]


def dense(p, x):
    return x @ p["w"] + p["b"]


def mlp(params, x):
    for p in params[:-1]:
        x = jax.nn.gelu(dense(p, x))
    return dense(params[-1], x)


def layers(sizes):
    return [{"w": rand((a, b), seed=i) * 0.3, "b": rand((b,), seed=i) * 0.1} for i, (a, b) in enumerate(zip(sizes, sizes[1:]))]


def attention(q, k, v, mask=True):
    s = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1])
    if mask:
        s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -1e9)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(s), v)


def norm(x, g):
    m = x.mean(-1, keepdims=True)
    return (x - m) * lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * g


def gpt(p, tokens):
    x = p["emb"][tokens] + p["pos"][: tokens.shape[1]]
    for b in p["blocks"]:
        h = norm(x, b["g1"])
        q, k, v = jnp.split((h @ b["qkv"]).reshape(*h.shape[:2], 2, 24), 3, -1)
        x = x + attention(q, k, v).reshape(h.shape) @ b["o"]
        x = x + jax.nn.gelu(norm(x, b["g2"]) @ b["up"]) @ b["down"]
    return norm(x, p["g"]) @ p["emb"].T


def gpt_params():
    blocks = [{"g1": np.ones(16, np.float32), "g2": np.ones(16, np.float32), "qkv": rand((16, 48), seed=i) * .2, "o": rand((16, 16), seed=i) * .2, "up": rand((16, 32), seed=i) * .2, "down": rand((32, 16), seed=i) * .2} for i in range(2)]
    return {"emb": rand((20, 16)) * .2, "pos": rand((8, 16)) * .1, "g": np.ones(16, np.float32), "blocks": blocks}


def cross_entropy(logits, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1))


def cases(r):
    x = rand((3, 8))
    for a in ACTIVATIONS:
        if hasattr(jax.nn, a):
            f = getattr(jax.nn, a)
            r.case(a, lambda x: f(x), x)
            r.case(f"{a}_grad", jax.grad(lambda x: jnp.sum(f(x) ** 2)), x, tol=1e-4)
    r.case("gelu_exact", lambda x: jax.nn.gelu(x, approximate=False), x)
    r.case("softmax_where", lambda x: jax.nn.softmax(x, where=x > 0, initial=-1.0), x)
    r.case("initializers", lambda k: [f()(k, (4, 5)) for f in (jax.nn.initializers.glorot_normal, jax.nn.initializers.he_uniform, jax.nn.initializers.lecun_normal, jax.nn.initializers.orthogonal)], jax.random.key(0), tol=1e-4)
    q = rand((2, 6, 2, 8))
    r.case("dot_product_attention", lambda q, k, v: (jax.nn.dot_product_attention(q, k, v), jax.nn.dot_product_attention(q, k, v, is_causal=True)), q, rand((2, 6, 2, 8), seed=1), rand((2, 6, 2, 8), seed=2), tol=1e-4)
    r.case("attention_grad", jax.grad(lambda a: jnp.sum(attention(*a) ** 2)), (q, rand((2, 6, 2, 8), seed=1), rand((2, 6, 2, 8), seed=2)), tol=1e-3)
    r.case("layer_norm_grad", jax.grad(lambda a: jnp.sum(jnp.sin(norm(*a)))), (x, np.ones(8, np.float32)), tol=1e-4)
    p = layers([8, 16, 4])
    r.case("mlp", mlp, p, x, tol=1e-4)
    r.case("mlp_grad", jax.value_and_grad(lambda p, x, y: jnp.mean((mlp(p, x) - y) ** 2)), p, x, rand((3, 4)), tol=1e-4)

    def sgd(p, m, x, y):
        loss, g = jax.value_and_grad(lambda p: jnp.mean((mlp(p, x) - y) ** 2))(p)
        m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
        return jax.tree.map(lambda p, m: p - 0.1 * m, p, m), m, loss
    zeros = jax.tree.map(np.zeros_like, p)
    r.case("sgd_step", sgd, p, zeros, x, rand((3, 4)), tol=1e-4)

    def adam(p, m, v, t, x, y):
        loss, g = jax.value_and_grad(lambda p: cross_entropy(mlp(p, x), y))(p)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        up = lambda p, m, v: p - 1e-3 * (m / (1 - 0.9 ** t)) / (jnp.sqrt(v / (1 - 0.999 ** t)) + 1e-8)
        return jax.tree.map(up, p, m, v), m, v, t, loss
    r.case("adam_step", adam, p, zeros, zeros, np.int32(0), x, np.array([0, 3, 1], np.int32), tol=1e-3)

    def train(p, x, y):
        def step(c, _):
            q, m, loss = sgd(c[0], c[1], x, y)
            return (q, m), loss
        return lax.scan(step, (p, jax.tree.map(jnp.zeros_like, p)), None, length=5)
    r.case("train_scan", train, p, x, rand((3, 4)), tol=1e-3)
    g, tokens = gpt_params(), (np.abs(rand((2, 8), "int32", 5)) * 3) % 20
    r.case("gpt", gpt, g, tokens, tol=1e-4)
    r.case("gpt_grad", jax.value_and_grad(lambda p, t: cross_entropy(gpt(p, t)[:, :-1], t[:, 1:])), g, tokens, tol=1e-3)
    r.case("gpt_bf16", lambda p, t: gpt(jax.tree.map(lambda a: a.astype("bfloat16"), p), t), g, tokens, tol=8e-2)
    cnn = {"c1": rand((3, 3, 1, 4)) * .3, "c2": rand((3, 3, 4, 8)) * .3, "d": rand((8 * 4, 5)) * .3}

    def convnet(p, x):
        c = lambda x, k: jax.nn.relu(lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        pool = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return pool(c(pool(c(x, p["c1"])), p["c2"])).reshape(x.shape[0], -1) @ p["d"]
    r.case("convnet_grad", jax.value_and_grad(lambda p, x, y: cross_entropy(convnet(p, x), y)), cnn, rand((2, 8, 8, 1)), np.array([1, 4], np.int32), tol=1e-3)

    def lstm(p, xs):
        def cell(c, x):
            h, s = c
            i, f, g, o = jnp.split(x @ p["wx"] + h @ p["wh"] + p["b"], 4, -1)
            s = jax.nn.sigmoid(f + 1) * s + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(s)
            return (h, s), h
        return lax.scan(cell, (jnp.zeros((2, 4)), jnp.zeros((2, 4))), xs)[1]
    lp = {"wx": rand((3, 16)) * .3, "wh": rand((4, 16)) * .3, "b": rand((16,)) * .1}
    r.case("lstm_grad", jax.value_and_grad(lambda p, x: jnp.sum(lstm(p, x) ** 2)), lp, rand((5, 2, 3)), tol=1e-3)
    r.case("resize", lambda x: (jax.image.resize(x, (6, 5), "bilinear"), jax.image.resize(x, (6, 16), "nearest"), jax.image.resize(x, (2, 4), "cubic"), jax.image.resize(x, (4, 4), "lanczos3")), x, tol=1e-4)
    r.case("scipy_special", lambda x: [getattr(jax.scipy.special, n)(x) for n in ("erf", "expit", "gammaln", "i0", "i0e", "i1", "log_ndtr", "ndtr", "ndtri", "digamma", "entr", "xlogy") if n != "xlogy"], rand((6,), low=0.1, high=0.9), tol=3e-4)
    r.case("scipy_stats", lambda x: [getattr(jax.scipy.stats, n).logpdf(x) for n in ("norm", "expon", "logistic", "cauchy", "laplace")] + [jax.scipy.stats.norm.cdf(x), jax.scipy.stats.gamma.logpdf(x, 2.0), jax.scipy.stats.beta.logpdf(x, 2., 3.), jax.scipy.stats.poisson.logpmf(jnp.round(x * 5), 2.0), jax.scipy.stats.t.logpdf(x, 3.)], rand((6,), low=0.1, high=0.9), tol=3e-4)
    r.case("map_coordinates", lambda x, c: jax.scipy.ndimage.map_coordinates(x, [c, c * 2], order=1), x, rand((4,), low=0., high=2.))
    r.case("kde", lambda x: jax.scipy.stats.gaussian_kde(x)(x[:3]), rand((9,)), tol=1e-3)
    r.case("per_example_grads", jax.vmap(jax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w))), (None, 0)), rand((8, 3)), x, tol=1e-4)
    r.case("flatten", lambda p: jax.flatten_util.ravel_pytree(p)[0] if hasattr(jax, "flatten_util") else p, p)
