# SPDX-License-Identifier: Apache-2.0
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from record import rand

import nn


def mesh_of(shape, names, explicit=False):
    return jax.make_mesh(shape, names, axis_types=(AxisType.Explicit if explicit else AxisType.Auto,) * len(shape))


def cases(r):
    m1, m2, m3 = mesh_of((8,), ("i",)), mesh_of((4, 2), ("x", "y")), mesh_of((2, 2, 2), ("a", "b", "c"))

    def put(x, mesh, *spec):
        return jax.device_put(x, NamedSharding(mesh, P(*spec)))

    x, w = rand((8, 16)), rand((16, 12))
    # automatic
    r.case("auto_matmul", lambda x, w: x @ w, put(x, m2, "x", "y"), put(w, m2, "y", None))
    r.case("auto_elementwise", lambda x: jnp.sin(x) * 2, put(x, m2, ("x", "y"), None))
    r.case("auto_reduce", lambda x: (x.sum(), x.max(0), x.mean(1), jnp.argmax(x, 1), jnp.sort(x, 0), jnp.cumsum(x, 1)), put(x, m2, "x", "y"))
    r.case("auto_constraint", lambda x: lax.with_sharding_constraint(jnp.cos(x), NamedSharding(m2, P("y", "x"))) @ x.T, put(x, m2, "x", None))
    r.case("auto_unconstrained", lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(m2, P(P.UNCONSTRAINED, "y"))), put(x, m2, "x", None))
    r.case("auto_uneven", lambda x: lax.with_sharding_constraint(x[:7] * 2, NamedSharding(m2, P("x"))), put(x, m2, "x", None))
    r.case("auto_out", None, put(x, m2, "x", None), jitted=jax.jit(lambda x: (x + 1, x.T), out_shardings=(NamedSharding(m2, P("y")), NamedSharding(m2, P("x", "y")))))
    r.case("auto_3d", lambda x, w: jnp.einsum("ij,jk->ik", x, w).sum(0), put(x, m3, ("a", "b"), "c"), put(w, m3, "c", "a"))
    r.case("auto_gather", lambda x, i: x[i], put(x, m2, "x", None), np.array([7, 0, 3], np.int32))
    r.case("auto_scatter", lambda x, i: x.at[i].add(1.0), put(x, m2, "x", "y"), np.array([7, 0, 3], np.int32))
    r.case("auto_conv", lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME"), put(rand((8, 3, 6, 6)), m2, "x"), rand((4, 3, 3, 3)), tol=1e-4)
    r.case("auto_random", lambda k: lax.with_sharding_constraint(jax.random.uniform(k, (8, 4)), NamedSharding(m1, P("i"))), jax.random.key(1))
    r.case("auto_scan", lambda w, x: lax.scan(lambda c, a: (jnp.tanh(c @ w + a),) * 2, jnp.zeros((4, 16)), x), put(rand((16, 16)), m2, None, "y"), put(rand((3, 4, 16)), m2, None, "x", None), tol=1e-4)
    r.case("auto_device_order", lambda x: x * 2 + 1, jax.device_put(x, NamedSharding(Mesh(np.array(jax.devices())[::-1].reshape(4, 2), ("x", "y")), P("x", "y"))))
    r.case("auto_cond", lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), np.bool_(True), put(x, m2, "x", "y"))
    e = mesh_of((4, 2), ("x", "y"), True)
    with jax.set_mesh(e):
        r.case("explicit_matmul", lambda x, w: jnp.sin(x @ w), put(x, e, "x", None), put(w, e, None, "y"))
        r.case("explicit_reshard", lambda x: jax.sharding.reshard(x * 2, P("y", "x")), put(x, e, "x", "y"))
        r.case("explicit_grad", jax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w) ** 2)), put(w, e, None, "y"), put(x, e, "x", None), tol=1e-4)
    # manual
    sm = lambda f, i, o, mesh=m1, **k: jax.shard_map(f, mesh=mesh, in_specs=i, out_specs=o, **k)
    for n, f in (("psum", lambda a: lax.psum(a, "i")), ("pmax", lambda a: lax.pmax(a, "i")), ("pmin", lambda a: lax.pmin(a, "i")), ("pmean", lambda a: lax.pmean(a, "i"))):
        r.case(n, sm(f, P("i"), P()), x)
    r.case("all_gather", sm(lambda a: lax.all_gather(a, "i"), P("i"), P("i")), x)
    r.case("all_gather_tiled", sm(lambda a: lax.all_gather(a, "i", axis=1, tiled=True), P("i"), P("i")), x)
    r.case("psum_scatter", sm(lambda a: lax.psum_scatter(a, "i", scatter_dimension=1, tiled=True), P("i"), P("i")), x)
    r.case("psum_scatter_untiled", sm(lambda a: lax.psum_scatter(a, "i"), P(None, "i"), P("i")), x)
    r.case("all_to_all", sm(lambda a: lax.all_to_all(a, "i", 1, 0, tiled=True), P("i"), P("i")), x)
    r.case("all_to_all_untiled", sm(lambda a: lax.all_to_all(a.reshape(8, 2), "i", 0, 1), P("i"), P("i")), x)
    r.case("ppermute", sm(lambda a: lax.ppermute(a, "i", [(i, (i + 3) % 8) for i in range(8)]), P("i"), P("i")), x)
    r.case("ppermute_partial", sm(lambda a: lax.ppermute(a, "i", [(0, 1), (5, 2)]), P("i"), P("i")), x)
    r.case("pshuffle", sm(lambda a: lax.pshuffle(a, "i", [7, 0, 1, 2, 3, 4, 5, 6]), P("i"), P("i")), x)
    r.case("axis_index", sm(lambda a: a + lax.axis_index("i"), P("i"), P("i")), x)
    r.case("axis_index_2d", sm(lambda a: a * lax.axis_index("x") + lax.axis_index("y") + lax.axis_index(("y", "x")), P("x", "y"), P("x", "y"), m2), x)
    g = [[0, 1, 2, 3], [4, 5, 6, 7]]
    r.case("groups", sm(lambda a: (lax.psum(a, "i", axis_index_groups=g), lax.all_gather(a, "i", axis_index_groups=g), lax.psum_scatter(jnp.tile(a, (4, 1)), "i", axis_index_groups=g, tiled=True), lax.all_to_all(a, "i", 1, 0, axis_index_groups=g, tiled=True)), P("i"), P("i"), check_vma=False), x)
    r.case("psum_2d", sm(lambda a: (lax.psum(a, "x"), lax.psum(a, "y"), lax.psum(a, ("x", "y"))), P("x", "y"), (P(None, "y"), P("x"), P()), m2), x)
    r.case("gather_2d", sm(lambda a: (lax.all_gather(a, "x", tiled=True), lax.all_gather(a, ("y", "x"), tiled=True)), P(("y", "x")), P(None), m2, check_vma=False), x)
    r.case("tuple_psum", sm(lambda a, b: lax.psum((a, b), "i"), (P("i"), P()), P()), x, rand((3,)))
    r.case("psum_const", sm(lambda a: a / lax.psum(1, "i"), P("i"), P("i")), x)
    r.case("psum_int", sm(lambda a: lax.psum(a, "i"), P("i"), P()), rand((8,), "int32"))
    r.case("psum_bool", sm(lambda a: (lax.psum(a.astype("int32"), "i"), jnp.any(lax.all_gather(a, "i"))), P("i"), P(), check_vma=False), rand((8,), "bool"))
    r.case("psum_bf16", sm(lambda a: lax.psum(a, "i"), P("i"), P()), rand((8, 4), "bfloat16"))
    r.case("psum_complex", sm(lambda a: lax.psum(a, "i"), P("i"), P()), rand((8, 4), "complex64"))
    r.case("manual_matmul", sm(lambda x, w: lax.psum(x @ w, "y"), (P("x", "y"), P("y", None)), P("x", None), m2), x, w)
    r.case("manual_grad", jax.grad(lambda w, x: jnp.sum(sm(lambda x, w: lax.psum(jnp.tanh(x @ w), "y"), (P("x", "y"), P("y", None)), P("x", None), m2)(x, w) ** 2)), w, x, tol=1e-4)
    r.case("manual_control", sm(lambda a: lax.fori_loop(0, 3, lambda i, v: lax.ppermute(v, "i", [(k, (k + 1) % 8) for k in range(8)]) + i, a), P("i"), P("i")), x)
    r.case("manual_scan", sm(lambda a: lax.scan(lambda c, b: (c + lax.psum(b, "i"), c), jnp.zeros(()), a[0])[0], P("i"), P()), x)
    r.case("manual_cond", sm(lambda a: lax.cond(lax.axis_index("i") > 3, jnp.sin, jnp.cos, a), P("i"), P("i")), x)
    r.case("manual_while", sm(lambda a: lax.while_loop(lambda c: c[0] < lax.axis_index("i") if False else c[0] < 4, lambda c: (c[0] + 1, c[1] * 1.5), (0, a))[1], P("i"), P("i")), x)
    r.case("manual_data_while", sm(lambda a: lax.while_loop(lambda c: jnp.sum(c) < 60, lambda c: c + 1.0, jnp.abs(a)), P("i"), P("i"), check_vma=False), x)
    r.case("manual_random", sm(lambda a: a + jax.random.uniform(jax.random.fold_in(jax.random.key(0), lax.axis_index("i")), a.shape), P("i"), P("i")), x)
    r.case("manual_sort", sm(lambda a: jnp.sort(a, -1), P("i"), P("i")), x)
    r.case("manual_nested_jit", sm(lambda a: jax.jit(lambda v: lax.psum(jax.nn.relu(v), "i"))(a) + jax.jit(jax.nn.relu)(a), P("i"), P("i"), check_vma=False), x)
    r.case("manual_axis_fn", sm(lambda a: jax.jit(lambda v: v * lax.axis_index("i"))(a), P("i"), P("i")), x)
    r.case("manual_linalg", sm(lambda a: jnp.linalg.cholesky(a @ jnp.swapaxes(a, -1, -2) + 4 * jnp.eye(4)), P("i"), P("i")), rand((8, 4, 4)), tol=1e-3)
    r.case("manual_conv", sm(lambda a, k: lax.conv_general_dilated(a, k, (1, 1), "SAME"), (P("i"), P()), P("i")), rand((8, 2, 5, 5)), rand((3, 2, 3, 3)), tol=1e-4)
    r.case("manual_index", sm(lambda a: (a[:, lax.axis_index("i")], lax.dynamic_slice(a, (0, lax.axis_index("i")), (1, 3)), a.at[:, lax.axis_index("i")].set(0.0)), P("i"), P("i")), x)
    r.case("manual_fft", sm(lambda a: jnp.fft.rfft(a), P("i"), P("i")), x, tol=1e-4)
    r.case("replicated_in", sm(lambda a, b: a + b, (P("i"), P()), P("i")), x, rand((16,)))
    r.case("dim1", sm(lambda a: a.sum(1, keepdims=True), P(None, "i"), P(None, "i")), x)
    r.case("both_dims", sm(lambda a: a * 2, P(("x", "y"), None), P("x", "y"), m2, check_vma=False) if False else sm(lambda a: a * 2, P(("y", "x"), None), P(("y", "x"), None), m2), x)
    r.case("manual_m3", sm(lambda a: lax.psum(a, ("a", "c")), P(("a", "b"), "c"), P("b"), m3), x)
    r.case("partial_manual", jax.jit(sm(lambda a: lax.psum(a * 2, "x"), P("x"), P(), m2, axis_names={"x"})), put(x, m2, "x", "y"))
    r.case("partial_manual_collectives", jax.jit(sm(lambda a: (lax.all_gather(a, "x", tiled=True), lax.ppermute(a, "x", [(0, 1), (1, 0)]), lax.psum_scatter(a, "x", scatter_dimension=1, tiled=True)), P("x"), (P(), P("x"), P("x")), m2, axis_names={"x"}, check_vma=False)), put(x, m2, "x", "y"))
    r.case("partial_axis_index", jax.jit(sm(lambda a: a + lax.axis_index("x"), P("x"), P("x"), m2, axis_names={"x"})), x)

    def nested(a):
        inner = jax.shard_map(lambda b: lax.psum(b, "y") + lax.axis_index("y"), in_specs=P(None, "y"), out_specs=P(), axis_names={"y"}, check_vma=False)
        return lax.psum(inner(a), "x")
    r.case("nested_manual", jax.jit(sm(nested, P("x"), P(), m2, axis_names={"x"}, check_vma=False)), x)
    r.case("two_maps", lambda x: sm(lambda a: lax.psum(a, "i"), P("i"), P())(jnp.sin(x)) + sm(lambda a: a * 2, P(None, "i"), P(None, "i"))(x)[:1], x)
    r.case("two_meshes", lambda x: sm(lambda a: a * lax.axis_index("x"), P("x"), P("x"), m2)(sm(lambda a: a + lax.axis_index("a"), P("a"), P("a"), m3)(x)), x)
    r.case("map_in_scan", lambda x: lax.scan(lambda c, _: (sm(lambda a: lax.ppermute(a, "i", [(k, (k + 1) % 8) for k in range(8)]), P("i"), P("i"))(c), None), x, None, length=3)[0], x)
    # pmap
    for n, f in (("pmap_sin", jnp.sin), ("pmap_psum", lambda a: lax.psum(a, "i")), ("pmap_index", lambda a: a * lax.axis_index("i")), ("pmap_gather", lambda a: lax.all_gather(a, "i")), ("pmap_mixed", lambda a: (a - lax.pmean(a, "i"), lax.ppermute(a, "i", [(0, 7), (7, 0)])))):
        r.case(n, None, x, jitted=jax.pmap(f, axis_name="i"))
    r.case("pmap_none", None, x, rand((16,)), jitted=jax.pmap(lambda a, b: a + b, in_axes=(0, None)))
    r.case("pmap_axes", None, rand((3, 8)), jitted=jax.pmap(lambda a: a * 2, in_axes=1, out_axes=1))
    r.case("pmap_4", None, x[:4], jitted=jax.pmap(lambda a: lax.psum(a, "i"), axis_name="i"))
    p = nn.layers([16, 32, 4])

    def pstep(p, x, y):
        loss, g = jax.value_and_grad(lambda p: jnp.mean((nn.mlp(p, x) - y) ** 2))(p)
        g = lax.pmean(g, "i")
        return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), lax.pmean(loss, "i")
    r.case("pmap_train", None, jax.tree.map(lambda a: np.stack([a] * 8), p), rand((8, 3, 16)), rand((8, 3, 4)), jitted=jax.pmap(pstep, axis_name="i"), tol=1e-4)
    r.case("map_train", sm(pstep, (P(), P("i"), P("i")), P()), p, rand((8, 16)), rand((8, 4)), tol=1e-4)

    def auto_train(p, x, y):
        loss, g = jax.value_and_grad(lambda p: jnp.mean((nn.mlp(p, x) - y) ** 2))(p)
        return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), loss
    r.case("auto_train", auto_train, jax.device_put(p, NamedSharding(m2, P())), put(rand((8, 16)), m2, "x", None), put(rand((8, 4)), m2, "x", None), tol=1e-4)
    tp = [{"w": put(p[0]["w"], m2, None, "y"), "b": put(p[0]["b"], m2, "y")}, {"w": put(p[1]["w"], m2, "y", None), "b": put(p[1]["b"], m2, None)}]
    r.case("auto_tensor_parallel", auto_train, tp, put(rand((8, 16)), m2, "x", None), put(rand((8, 4)), m2, "x", None), tol=1e-4)
    gp, t = nn.gpt_params(), (np.abs(rand((8, 8), "int32", 5)) * 3) % 20

    def gstep(p, t):
        loss, g = jax.value_and_grad(lambda p: nn.cross_entropy(nn.gpt(p, t)[:, :-1], t[:, 1:]))(p)
        return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), loss
    spec = lambda a: NamedSharding(m2, P(None, "y") if a.ndim == 2 and a.shape[1] in (48, 32) else P("y") if a.ndim == 2 and a.shape[0] == 32 else P())
    r.case("gpt_auto", gstep, jax.tree.map(lambda a: jax.device_put(a, spec(a)), gp), put(t, m2, "x", None), tol=1e-3)

    def gmap(p, t):
        loss, g = jax.value_and_grad(lambda p: nn.cross_entropy(nn.gpt(p, t)[:, :-1], t[:, 1:]))(p)
        g, loss = lax.pmean((g, loss), "i")
        return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), loss
    r.case("gpt_map", sm(gmap, (P(), P("i")), P()), gp, t, tol=1e-3)

    def ring(q, k, v):
        def step(c, _):
            k, v, num, den = c
            s = jnp.exp(q @ k.T / 4)
            num, den = num + s @ v, den + s.sum(-1, keepdims=True)
            perm = [(i, (i + 1) % 8) for i in range(8)]
            return (lax.ppermute(k, "i", perm), lax.ppermute(v, "i", perm), num, den), None
        (_, _, num, den), _ = lax.scan(step, (k, v, jnp.zeros_like(q), jnp.zeros_like(q[:, :1])), None, length=8)
        return num / den
    r.case("ring_attention", sm(ring, P("i"), P("i"), check_vma=False), x, rand((8, 16), seed=1), rand((8, 16), seed=2), tol=1e-4)
