# SPDX-License-Identifier: Apache-2.0
"""Layers, networks, optimisers' steps and their shardings, as people write them with JAX, Optax and Flax."""
import flax.linen as fnn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from record import rand

from nn import cross_entropy, gpt, gpt_params, layers, mlp
from sharding import mesh_of

X, Y, TOKENS = rand((4, 8)), np.array([1, 0, 2, 1], np.int32), np.arange(12, dtype=np.int32).reshape(2, 6)


def bf16(tree):
    return jax.tree.map(lambda a: np.asarray(a, jnp.bfloat16) if np.asarray(a).dtype == np.float32 else a, tree)


def layer_norm(x, axis=-1, kept=True):
    m = x.mean(axis, keepdims=kept)
    v = jnp.var(x, axis, keepdims=kept)
    return (x - m) * lax.rsqrt(v + 1e-5) if kept else (x - m[:, None]) * lax.rsqrt(v[:, None] + 1e-5)


def norms(r):
    for n, dtype, x64, tol in (("f32", "float32", False, 1e-4), ("f64", "float64", True, 1e-9), ("bf16", "bfloat16", False, 6e-2)):
        x, g = rand((6, 16), dtype), rand((16,), dtype)
        c = lambda name, f, *a: r.case(f"{name}_{n}", f, *a, tol=tol, x64=x64)
        c("layer_norm", lambda x, g: layer_norm(x) * g, x, g)
        c("layer_norm_dropped", lambda x, g: layer_norm(x, kept=False) * g, x, g)
        c("layer_norm_wide_inside", lambda x, g: layer_norm(x.astype(jnp.promote_types(x.dtype, "float32"))).astype(x.dtype) * g, x, g)
        c("rms_norm", lambda x, g: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * (1 + g), x, g)
        c("residual_norm", lambda x, g: layer_norm(x + layer_norm(jnp.tanh(x) * g)) + x, x, g)
        c("group_norm", lambda x: layer_norm(x.reshape(6, 4, 4), (1, 2)).reshape(6, 16), x)
        c("batch_norm", lambda x: (layer_norm(x, 0), .9 * jnp.ones(16, x.dtype) + .1 * x.mean(0), .9 + .1 * x.var(0, ddof=1)), x)
        c("cross_entropy", lambda x: cross_entropy(x, jnp.arange(6)), x)
        c("masked_softmax", lambda x: jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((16, 16), bool)), x[0][:, None] * x[1], -jnp.inf)), x)
        c("masked_mean_pool", lambda x, m: (x * m[:, None]).sum(0) / jnp.maximum(m.sum(), 1), x, np.array([1, 1, 0, 1, 0, 1]).astype(x.dtype))
        if n != "bf16":
            c("layer_norm_gradient", jax.grad(lambda x, g: jnp.sum(jnp.sin(layer_norm(x) * g)), (0, 1)), x, g)
            c("rms_norm_gradient", jax.grad(lambda x: jnp.sum(jnp.sin(x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)))), x)
            c("softmax_gradient", jax.grad(lambda x: jnp.sum(jax.nn.softmax(x) ** 2 * jax.nn.softmax(x, 0))), x)


def rope(x):
    t, half = jnp.arange(x.shape[1])[:, None], x.shape[-1] // 2
    a = t / 100.0 ** (jnp.arange(half) / half)
    s, c = jnp.sin(a)[None, :, None], jnp.cos(a)[None, :, None]
    return jnp.concatenate([x[..., :half] * c - x[..., half:] * s, x[..., half:] * c + x[..., :half] * s], -1).astype(x.dtype)


def online_softmax_attention(q, k, v, block=2, causal=True):
    """Blocks of keys one after the other, with running maxima and sums kept as [b, h, t]."""
    t = q.shape[1]

    def step(state, i):
        o, m, l = state
        ks, vs = (lax.dynamic_slice_in_dim(a, i * block, block, 1) for a in (k, v))
        s = jnp.einsum("bthd,bshd->bhts", q, ks) / np.sqrt(q.shape[-1])
        if causal:
            s = jnp.where(jnp.arange(t)[:, None] >= i * block + jnp.arange(block), s, -1e30)
        m2 = jnp.maximum(m, s.max(-1))
        p, scale = jnp.exp(s - m2[..., None]), jnp.exp(m - m2)
        return (o * scale[..., None] + jnp.einsum("bhts,bshd->bhtd", p, vs), m2, l * scale + p.sum(-1)), None

    b, _, h, d = q.shape
    start = jnp.zeros((b, h, t, d), q.dtype), jnp.full((b, h, t), -1e30, q.dtype), jnp.zeros((b, h, t), q.dtype)
    (o, _, l), _ = lax.scan(step, start, jnp.arange(t // block))
    return jnp.swapaxes(o / l[..., None], 1, 2)


def ring(q, k, v, loop, causal=True):
    """One block of the sequence a device; keys and values go round."""
    n, me, t = lax.axis_size("i"), lax.axis_index("i"), q.shape[1]

    def step(j, state):
        o, m, l, k, v = state
        s = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1])
        if causal:
            rows, cols = me * t + jnp.arange(t), ((me - j) % n) * t + jnp.arange(t)
            s = jnp.where(rows[:, None] >= cols, s, -1e30)
        m2 = jnp.maximum(m, s.max(-1))
        p, scale = jnp.exp(s - m2[..., None]), jnp.exp(m - m2)
        o, l = o * scale[..., None] + jnp.einsum("bhts,bshd->bhtd", p, v), l * scale + p.sum(-1)
        perm = [(a, (a + 1) % n) for a in range(n)]
        return o, m2, l, lax.ppermute(k, "i", perm), lax.ppermute(v, "i", perm)

    b, _, h, d = q.shape
    start = (jnp.zeros((b, h, t, d)), jnp.full((b, h, t), -1e30), jnp.zeros((b, h, t)), k, v)
    start = tuple(lax.pcast(a, "i", to="varying") for a in start[:3]) + start[3:]
    if loop == "fori":
        o, _, l, *_ = lax.fori_loop(0, n, step, start)
    elif loop == "scan":
        (o, _, l, *_), _ = lax.scan(lambda s, j: (step(j, s), None), start, jnp.arange(n))
    else:
        o, _, l, *_ = lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, *step(s[0], s[1:])), (0, *start))[1:]
    return jnp.swapaxes(o / l[..., None], 1, 2)


def attentions(r):
    q, k, v = (rand((2, 6, 2, 4), seed=i) for i in range(3))
    for n, cast, tol in (("f32", lambda x: x, 1e-4), ("bf16", bf16, 6e-2)):
        a = [cast(x) for x in (q, k, v)]
        r.case(f"attention_causal_{n}", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), *a, tol=tol)
        r.case(f"attention_rope_{n}", lambda q, k, v: jax.nn.dot_product_attention(rope(q), rope(k), v, is_causal=True), *a, tol=tol)
    r.case("attention_online", lambda q, k, v: online_softmax_attention(q, k, v), q, k, v, tol=1e-4)
    r.case("attention_online_f64", lambda q, k, v: online_softmax_attention(q, k, v), *(a.astype("float64") for a in (q, k, v)), x64=True, tol=1e-9)
    r.case("attention_online_gradient", jax.grad(lambda q, k, v: jnp.sum(online_softmax_attention(q, k, v) ** 2), (0, 1, 2)), q, k, v, tol=1e-3)
    r.case("attention_grouped", lambda q, k, v: jax.nn.dot_product_attention(q, k, v), rand((2, 6, 4, 4)), k, v, tol=1e-4)
    r.case("attention_window", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=2), q, k, v, tol=1e-4)
    r.case("attention_lengths", lambda q, k, v, n: jax.nn.dot_product_attention(q, k, v, key_value_seq_lengths=n), q, k, v, np.array([3, 5], np.int32), tol=1e-4)
    r.case("attention_linear", lambda q, k, v: (lambda q, k: jnp.einsum("bthd,bthde->bthe", q, jnp.cumsum(k[..., None] * v[..., None, :], 1)) / jnp.einsum("bthd,bthd->bth", q, jnp.cumsum(k, 1))[..., None])(jax.nn.elu(q) + 1, jax.nn.elu(k) + 1), q, k, v, tol=1e-3)
    r.case("cache_step", lambda c, x, i: (lambda c: (c, jax.nn.softmax(jnp.where(jnp.arange(6) <= i, jnp.einsum("bhd,bthd->bht", x, c), -1e9)).sum(1)))(lax.dynamic_update_slice_in_dim(c, x[:, None], i, 1)), k, rand((2, 2, 4)), np.int32(3), tol=1e-4)
    m = mesh_of((8,), ("i",))
    q, k, v = (rand((2, 16, 2, 4), seed=i) for i in range(3))
    for loop in ("fori", "scan", "while"):
        for causal in (True, False):
            f = jax.shard_map(lambda q, k, v: ring(q, k, v, loop, causal), mesh=m, in_specs=P(None, "i"), out_specs=P(None, "i"))
            r.case(f"ring_{loop}_{'causal' if causal else 'full'}", f, q, k, v, tol=1e-4)
    f = jax.shard_map(lambda q, k, v: ring(q, k, v, "scan"), mesh=m, in_specs=P(None, "i"), out_specs=P(None, "i"))
    r.case("ring_gradient", jax.grad(lambda q, k, v: jnp.sum(f(q, k, v) ** 2), (0, 1, 2)), q, k, v, tol=1e-3)


def experts(p, x, k=2, capacity=None):
    gates = jax.nn.softmax(x @ p["gate"])
    g, e = lax.top_k(gates, k)
    g = g / g.sum(-1, keepdims=True)
    hot = jax.nn.one_hot(e, gates.shape[-1])
    if capacity is None:
        y = jnp.einsum("te,ted->td", (hot * g[..., None]).sum(1), jnp.einsum("tef,efd->ted", jax.nn.gelu(jnp.einsum("td,edf->tef", x, p["up"])), p["down"]))
    else:
        place = (jnp.cumsum(hot.reshape(-1, hot.shape[-1]), 0).reshape(hot.shape) - 1) * hot
        send = (jax.nn.one_hot(jnp.where(hot > 0, place, -1), capacity) * hot[..., None]).sum(1)
        inside = jnp.einsum("tec,td->ecd", send, x)
        out = jnp.einsum("ecf,efd->ecd", jax.nn.gelu(jnp.einsum("ecd,edf->ecf", inside, p["up"])), p["down"])
        y = jnp.einsum("tec,ecd->td", send * (hot * g[..., None]).sum(1)[..., None], out)
    return y, gates.shape[-1] * (gates.mean(0) * hot.sum(1).mean(0)).sum()


def mixtures(r):
    p = {"gate": rand((8, 4)), "up": rand((4, 8, 6)) * .3, "down": rand((4, 6, 8)) * .3}
    x = rand((10, 8))
    r.case("experts_all", lambda p, x: experts(p, x), p, x, tol=1e-4)
    r.case("experts_capacity", lambda p, x: experts(p, x, 2, 4), p, x, tol=1e-4)
    r.case("experts_first", lambda p, x: experts(p, x, 1, 3), p, x, tol=1e-4)
    r.case("experts_bf16", lambda p, x: experts(p, x)[1], bf16(p), bf16(x), tol=6e-2)
    r.case("experts_gradient", jax.grad(lambda p, x: (lambda y, a: jnp.sum(y * y) + a)(*experts(p, x, 2, 4))), p, x, tol=1e-3)
    r.case("ragged_experts", lambda x, w, n: lax.ragged_dot(x, w, n), rand((9, 8)), rand((3, 8, 5)), np.array([4, 0, 5], np.int32), tol=1e-4)
    m = mesh_of((8,), ("i",))

    def spread(x, gate, up):
        e = jnp.argmax(x @ gate, -1)
        send = jax.nn.one_hot(e, 8).T[..., None] * x
        got = lax.all_to_all(send, "i", 0, 0, tiled=True)
        back = lax.all_to_all(jax.nn.relu(got @ up[0]), "i", 0, 0, tiled=True)
        return (back * jax.nn.one_hot(e, 8).T[..., None]).sum(0)

    r.case("experts_all_to_all", jax.shard_map(spread, mesh=m, in_specs=(P("i"), P(), P("i")), out_specs=P("i")), rand((16, 8)), rand((8, 8)), rand((8, 8, 8)) * .4, tol=1e-4)


# Those in the tests' file; the others are recorded with --raw alone.
KEPT = ("momentum", "adamw", "adafactor", "rmsprop", "lamb", "muon", "clipped", "accumulated")

OPTIMISERS = {
    "sgd": lambda: optax.sgd(.1), "momentum": lambda: optax.sgd(.1, .9), "nesterov": lambda: optax.sgd(.1, .9, True), "adam": lambda: optax.adam(1e-2), "adamw": lambda: optax.adamw(1e-2), "amsgrad": lambda: optax.amsgrad(1e-2),
    "nadam": lambda: optax.nadam(1e-2), "radam": lambda: optax.radam(1e-2), "adamax": lambda: optax.adamax(1e-2), "adabelief": lambda: optax.adabelief(1e-2), "adafactor": lambda: optax.adafactor(1e-2, min_dim_size_to_factor=4), "adagrad": lambda: optax.adagrad(1e-2),
    "adadelta": lambda: optax.adadelta(.1), "rmsprop": lambda: optax.rmsprop(1e-2, centered=True, momentum=.9), "lamb": lambda: optax.lamb(1e-2), "lars": lambda: optax.lars(1e-2), "lion": lambda: optax.lion(1e-2), "yogi": lambda: optax.yogi(1e-2), "novograd": lambda: optax.novograd(1e-2),
    "sm3": lambda: optax.sm3(1e-2), "fromage": lambda: optax.fromage(1e-2), "rprop": lambda: optax.rprop(1e-2), "sign": lambda: optax.sign_sgd(1e-2), "adan": lambda: optax.adan(1e-2), "muon": lambda: optax.contrib.muon(1e-2),
    "prodigy": lambda: optax.contrib.prodigy(), "schedule_free": lambda: optax.contrib.schedule_free_sgd(.1), "clipped": lambda: optax.chain(optax.clip_by_global_norm(.5), optax.adam(optax.warmup_cosine_decay_schedule(0., 1e-2, 2, 10))),
    "accumulated": lambda: optax.MultiSteps(optax.adam(1e-2), 2), "adaptive_clip": lambda: optax.chain(optax.adaptive_grad_clip(.1), optax.sgd(optax.exponential_decay(.1, 2, .9))), "centralised": lambda: optax.chain(optax.centralize(), optax.add_decayed_weights(1e-3), optax.trace(.9), optax.scale(-.1)),
}


def steps(r):
    p = layers((8, 6, 3))

    def train(opt, loss, n=3):
        def run(p, *data):
            def step(s, _):
                v, g = jax.value_and_grad(loss)(s[0], *data)
                u, o = opt.update(g, s[1], s[0])
                return (optax.apply_updates(s[0], u), o), v
            (p, _), v = lax.scan(step, (p, opt.init(p)), None, length=n)
            return p, v
        return run

    loss = lambda p, x, y: cross_entropy(mlp(p, x), y)
    for n, make in OPTIMISERS.items():
        r.case(f"optimiser_{n}", train(make(), loss), p, X, Y, tol=2e-3, kept=n in KEPT)
    r.case("optimiser_adam_bf16", train(optax.adam(1e-2), loss), bf16(p), bf16(X), Y, tol=1e-1)
    r.case("optimiser_adam_f64", train(optax.adam(1e-2), loss), jax.tree.map(lambda a: a.astype("float64"), p), X.astype("float64"), Y, x64=True, tol=1e-7)
    r.case("optimiser_mixed", train(optax.adamw(1e-2), lambda p, x, y: cross_entropy(mlp(jax.tree.map(lambda a: a.astype(jnp.bfloat16), p), x.astype(jnp.bfloat16)).astype(jnp.float32), y), 1), p, X, Y, tol=5e-2)
    r.case("global_norm_clip", lambda p: optax.clip_by_global_norm(1.0).update(p, None)[0], p, tol=1e-4)
    logits, other = rand((4, 6)), rand((4, 6), seed=1)
    for n, f in {"smooth": lambda l, o: optax.softmax_cross_entropy(l, optax.smooth_labels(jax.nn.one_hot(Y, 6), .1)), "sigmoid": lambda l, o: optax.sigmoid_binary_cross_entropy(l, jax.nn.sigmoid(o)), "focal": lambda l, o: optax.sigmoid_focal_loss(l, jax.nn.one_hot(Y, 6)), "huber": lambda l, o: optax.huber_loss(l, o),
                 "cosine": lambda l, o: optax.cosine_similarity(l, o), "kl": lambda l, o: optax.kl_divergence(jax.nn.log_softmax(l), jax.nn.softmax(o)), "hinge": lambda l, o: optax.hinge_loss(l, jnp.sign(o)), "ctc": lambda l, o: optax.ctc_loss(jnp.stack([l, o, l + o], 1), jnp.zeros((4, 3)), jnp.array([[1, 2], [3, 3], [4, 1], [2, 5]]), jnp.array([[0, 0], [0, 1], [0, 0], [0, 1]])),
                 "contrastive": lambda l, o: (lambda s: cross_entropy(s, jnp.arange(4)) + cross_entropy(s.T, jnp.arange(4)))((lambda u, v: u @ v.T)(*(a / jnp.linalg.norm(a, axis=1, keepdims=True) for a in (l, o)))), "triplet": lambda l, o: jnp.maximum(((l - o) ** 2).sum(1) - ((l - o[::-1]) ** 2).sum(1) + 1, 0).mean(),
                 "logcosh": lambda l, o: optax.log_cosh(l, o), "poly": lambda l, o: optax.losses.poly_loss_cross_entropy(l, jax.nn.softmax(o)), "sparsemax": lambda l, o: optax.losses.sparsemax_loss(l, jnp.sign(o))}.items():
        r.case(f"loss_{n}", lambda l, o: (f(l, o), jax.grad(lambda l: f(l, o).sum())(l)), logits, other, tol=1e-3, kept=n not in ("smooth", "sigmoid", "triplet", "logcosh", "huber", "hinge"))


class Block(fnn.Module):
    @fnn.compact
    def __call__(self, x):
        x = x + fnn.SelfAttention(2)(fnn.LayerNorm()(x), mask=fnn.make_causal_mask(x[..., 0]))
        return x + fnn.Dense(8)(fnn.gelu(fnn.Dense(16)(fnn.LayerNorm()(x))))


class Transformer(fnn.Module):
    @fnn.compact
    def __call__(self, t):
        x = fnn.Embed(12, 8)(t) + self.param("pos", fnn.initializers.normal(), (t.shape[1], 8))
        for _ in range(2):
            x = Block()(x)
        return fnn.Dense(12)(fnn.RMSNorm()(x))


class ConvNet(fnn.Module):
    @fnn.compact
    def __call__(self, x):
        x = fnn.relu(fnn.GroupNorm(2)(fnn.Conv(4, (3, 3))(x)))
        x = fnn.avg_pool(x, (2, 2), (2, 2)) + fnn.max_pool(fnn.Conv(4, (3, 3), (1, 1))(x), (2, 2), (2, 2))
        x = fnn.ConvTranspose(4, (2, 2), (2, 2))(x)
        return fnn.Dense(3)(x.mean((1, 2)))


class Recurrent(fnn.Module):
    cell: str

    @fnn.compact
    def __call__(self, x):
        return fnn.Dense(3)(fnn.RNN(getattr(fnn, self.cell)(6))(x)[:, -1])


def networks(r):
    images, series = rand((2, 8, 8, 3)), rand((3, 5, 4))
    cases = {"transformer": (Transformer(), TOKENS, TOKENS), "conv": (ConvNet(), images, Y[:2]), **{c.lower(): (Recurrent(c), series, Y[:3]) for c in ("LSTMCell", "GRUCell", "OptimizedLSTMCell", "MGUCell")}}
    for n, (net, x, y) in cases.items():
        p = jax.tree.map(np.asarray, net.init(jax.random.key(0), x))
        opt = optax.adamw(1e-3)
        r.case(f"flax_{n}", net.apply, p, x, tol=1e-3, kept=n == "lstmcell")
        r.case(f"flax_{n}_loss_gradient", jax.value_and_grad(lambda p, x, y: cross_entropy(net.apply(p, x), y)), p, x, y, tol=2e-3, kept=n == "conv")
        if n in ("transformer", "conv"):
            r.case(f"flax_{n}_step", lambda p, x, y: (lambda g: optax.apply_updates(p, opt.update(g, opt.init(p), p)[0]))(jax.grad(lambda p: cross_entropy(net.apply(p, x), y))(p)), p, x, y, tol=5e-3)
            r.case(f"flax_{n}_bf16", net.apply, bf16(p), bf16(x), tol=1e-1, kept=n == "conv")
    a, w = rand((5, 5), "bool").astype("float32"), rand((8, 6))
    h = rand((5, 8))
    r.case("graph_convolution", lambda a, h, w: (lambda a, d: jax.nn.relu(a / jnp.sqrt(d[:, None] * d[None]) @ h @ w))(a + jnp.eye(5), (a + jnp.eye(5)).sum(1)), a, h, w, tol=1e-4)
    r.case("graph_attention", lambda a, h, w: (lambda z: jax.nn.softmax(jnp.where(a > 0, jax.nn.leaky_relu(z.sum(1)[:, None] + z.max(1)[None]), -1e9)) @ z)(h @ w), a, h, w, tol=1e-4)
    r.case("message_passing", lambda h, s, t: jax.nn.relu(jax.ops.segment_sum(h[s], t, 5) / jnp.maximum(jax.ops.segment_sum(jnp.ones(9), t, 5), 1)[:, None] - h), h, np.array([0, 1, 2, 3, 4, 0, 2, 4, 1], np.int32), np.array([1, 2, 3, 4, 0, 2, 4, 1, 3], np.int32), tol=1e-4)
    r.case("variational", lambda k, m, s: (m + jnp.exp(s / 2) * jax.random.normal(k, m.shape), -.5 * (1 + s - m ** 2 - jnp.exp(s)).sum(1).mean()), jax.random.key(1), rand((4, 3)), rand((4, 3), seed=1), tol=1e-4)
    r.case("diffusion", lambda k, x: lax.scan(lambda x, k: (lambda b: (jnp.sqrt(1 - b) * x + jnp.sqrt(b) * jax.random.normal(k, x.shape), x.std()))(.1), x, jax.random.split(k, 5)), jax.random.key(1), rand((4, 3)), tol=1e-4)
    r.case("state_space", lambda a, b, x: lax.associative_scan(lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1]), (jnp.broadcast_to(jnp.exp(-jnp.abs(a)), x.shape), x * b))[1].sum(-1), rand((6,)), rand((6,), seed=1), rand((9, 6)), tol=1e-4)
    r.case("remat", jax.grad(lambda p, x: jnp.sum(jax.checkpoint(lambda x: mlp(p, x))(x) ** 2)), layers((8, 6, 3)), X, tol=1e-3)
    r.case("per_example_gradients", lambda p, x, y: jax.vmap(jax.grad(lambda p, x, y: cross_entropy(mlp(p, x[None]), y[None])), (None, 0, 0))(p, x, y), layers((8, 6, 3)), X, Y, tol=1e-3)
    r.case("beam_step", lambda s, l: (lambda v, i: (v, i // 12, i % 12))(*lax.top_k((s[..., None] + jax.nn.log_softmax(l)).reshape(2, -1), 3)), rand((2, 3)), rand((2, 3, 12)), tol=1e-4)
    r.case("nucleus", lambda l: (lambda s: jnp.where(jnp.cumsum(s, -1) - s < .7, s, 0) / jnp.where(jnp.cumsum(s, -1) - s < .7, s, 0).sum(-1, keepdims=True))(-jnp.sort(-jax.nn.softmax(l))), rand((3, 12)), tol=1e-4)
    r.case("greedy", lambda p, t: lax.fori_loop(3, 6, lambda i, t: t.at[:, i].set(jnp.argmax(gpt(p, t)[:, i - 1], -1)), t), gpt_params(), TOKENS, tol=1e-4, kept=False)


def spread(r):
    mesh = mesh_of((4, 2), ("data", "model"))
    put = lambda x, *s: jax.device_put(x, NamedSharding(mesh, P(*s)))
    p = layers((8, 16, 4))
    x, y = rand((8, 8)), np.arange(8, dtype=np.int32) % 4
    loss = lambda p, x, y: cross_entropy(mlp(p, x), y)
    step = lambda p, x, y: jax.tree.map(lambda a, g: a - .1 * g, p, jax.grad(loss)(p, x, y))
    r.case("data_parallel", step, p, put(x, "data"), put(y, "data"), tol=1e-3)
    ways = ({"w": (None, "model"), "b": ("model",)}, {"w": ("model", None), "b": ()})
    tensor = [{k: put(a[k], *s[k]) for k in a} for a, s in zip(p, ways)]
    r.case("tensor_parallel", step, tensor, put(x, "data"), put(y, "data"), tol=1e-3)
    full = [{"w": put(a["w"], ("data", "model")), "b": put(a["b"])} for a in p]
    r.case("fully_sharded", step, full, put(x, ("data", "model")), put(y, ("data", "model")), tol=1e-3)
    q = gpt_params()
    r.case("gpt_sharded_gradient", jax.grad(lambda p, t: cross_entropy(gpt(p, t), t)), q, put(np.tile(TOKENS, (2, 1)), "data"), tol=2e-3, kept=False)
    r.case("norm_sharded_rows", lambda x: (layer_norm(x), x.std(1, keepdims=True), jnp.std(x, 0)), put(x, "data", "model"), tol=1e-4)
    r.case("norm_sharded_where", lambda x, m: (jnp.std(x, 1, where=m), jnp.var(x, 0, where=m, ddof=1, keepdims=True)), put(x, "data", "model"), put(rand((8, 8), "bool"), "data"), tol=1e-3)
    line = mesh_of((8,), ("i",))
    sm = lambda f, i, o: jax.shard_map(f, mesh=line, in_specs=i, out_specs=o)

    def pipeline(w, x):
        def tick(s, t):
            a, out = s
            a = jnp.where(lax.axis_index("i") == 0, x[jnp.minimum(t, 3)], a)
            a = jnp.tanh(a @ w[0])
            out = jnp.where((lax.axis_index("i") == 7) & (t >= 7), out.at[t - 7].set(a), out)
            return (lax.ppermute(a, "i", [(j, (j + 1) % 8) for j in range(8)]), out), None
        start = [lax.pcast(z, "i", to="varying") for z in (jnp.zeros_like(x[0]), jnp.zeros_like(x))]
        (_, out), _ = lax.scan(tick, tuple(start), jnp.arange(11))
        return lax.psum(jnp.where(lax.axis_index("i") == 7, out, 0), "i")

    r.case("pipeline", sm(pipeline, (P("i"), P()), P()), rand((8, 4, 4)), rand((4, 2, 4)), tol=1e-4)
    r.case("pipeline_gradient", jax.grad(lambda w, x: jnp.sum(sm(pipeline, (P("i"), P()), P())(w, x) ** 2)), rand((8, 4, 4)), rand((4, 2, 4)), tol=1e-3)
    r.case("gather_matmul", sm(lambda x, w: lax.all_gather(x, "i", axis=0, tiled=True) @ w, (P("i"), P(None, "i")), P(None, "i")), rand((8, 8)), rand((8, 16)), tol=1e-4)
    r.case("matmul_scatter", sm(lambda x, w: lax.psum_scatter(x @ w, "i", tiled=True), (P(None, "i"), P("i")), P("i")), rand((8, 8)), rand((8, 8), seed=1), tol=1e-4)
    r.case("cross_device_norm", sm(lambda x: (lambda m: (x - m) / jnp.sqrt(lax.pmean(((x - m) ** 2).mean(0), "i") + 1e-5))(lax.pmean(x.mean(0), "i")), P("i"), P("i")), rand((16, 5)), tol=1e-4)
    r.case("vocabulary_loss", sm(lambda l, y: (lambda m: jnp.log(lax.psum(jnp.exp(l - m[:, None]).sum(1), "i")) + m - lax.psum(jnp.where((y // 2) == lax.axis_index("i"), jnp.take_along_axis(l, (y % 2)[:, None], 1)[:, 0], 0), "i"))(lax.pmax(l.max(1), "i")), (P(None, "i"), P()), P()), rand((5, 16)), np.array([3, 15, 0, 7, 8], np.int32), tol=1e-4)


def cases(r):
    for part in (norms, attentions, mixtures, steps, networks, spread):
        part(r)
