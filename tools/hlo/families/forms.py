# SPDX-License-Identifier: Apache-2.0
"""GSPMD's marks, collectives of one-device programs, and JAX's own kernels for the CPU."""
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax
from jax.experimental import sparse
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from record import rand


def gspmd(r):
    auto = lambda n: (AxisType.Auto,) * n
    m1, m2 = jax.make_mesh((8,), ("i",), axis_types=auto(1)), jax.make_mesh((4, 2), ("x", "y"), axis_types=auto(2))
    mixed = Mesh(np.array(jax.devices())[[0, 3, 5, 6, 1, 2, 4, 7]].reshape(4, 2), ("x", "y"))
    put = lambda x, *spec: jax.device_put(x, NamedSharding(m2, P(*spec)))
    sm = lambda f, i, o, mesh=m1, **k: jax.shard_map(f, mesh=mesh, in_specs=i, out_specs=o, **k)
    x, w = rand((8, 16)), rand((16, 12))
    r.case("gspmd_matmul", lambda x, w: x @ w, put(x, "x", "y"), put(w, "y"))
    r.case("gspmd_constraint", lambda x: lax.with_sharding_constraint(jnp.sin(x), NamedSharding(m2, P("y", "x"))).T, put(x, "x"))
    r.case("gspmd_psum", sm(lambda a: lax.psum(a, "i"), P("i"), P()), x)
    r.case("gspmd_all", sm(lambda a: (lax.all_gather(a, "i"), lax.psum_scatter(a, "i", scatter_dimension=1, tiled=True), lax.all_to_all(a, "i", 1, 0, tiled=True), lax.ppermute(a, "i", [(i, (i + 3) % 8) for i in range(8)])), P("i"), P("i")), x)
    r.case("gspmd_index", sm(lambda a: a * lax.axis_index("x") + lax.axis_index(("y", "x")), P("x", "y"), P("x", "y"), m2), x)
    r.case("gspmd_order", sm(lambda a: lax.psum(a * lax.axis_index("y"), "x"), P("x", "y"), P(None, "y"), mixed), x)
    r.case("gspmd_two_maps", lambda x: sm(lambda a: a + lax.axis_index("y"), P("y"), P("y"), m2)(jnp.cos(sm(lambda a: lax.psum(a, "x"), P("x"), P(), m2)(x)).T), x)
    r.case("gspmd_captured", lambda x, w: sm(lambda a, b: lax.psum(jnp.tanh(a @ b), "y"), (P("x", "y"), P("y")), P("x"), m2)(x, w) * 2 + w.sum(), x, w)
    r.case("gspmd_no_operands", sm(lambda: lax.axis_index("i")[None] * 2, (), P("i")))
    r.case("gspmd_partial", jax.shard_map(lambda a: lax.psum(a, "x") * 2, mesh=m2, in_specs=P("x"), out_specs=P(), axis_names={"x"}), put(x, "x", "y"))
    r.case("gspmd_nested", jax.shard_map(lambda a: jax.shard_map(lambda b: b * lax.psum(b, "y"), in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"})(a), mesh=m2, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}), x)
    r.case("gspmd_loop", sm(lambda a: lax.fori_loop(0, 3, lambda i, v: lax.ppermute(v, "i", [(k, (k + 1) % 8) for k in range(8)]) + i, a), P("i"), P("i")), x)
    r.case("gspmd_in_loop", lambda x: lax.fori_loop(0, 2, lambda i, v: v + sm(lambda b: lax.pmax(b, "i") + b, P("i"), P("i"))(v), x), x)
    r.case("gspmd_grad", jax.grad(lambda w, x: jnp.sum(sm(lambda x, w: lax.psum(jnp.tanh(x @ w), "y"), (P("x", "y"), P("y", None)), P("x", None), m2)(x, w) ** 2)), w, x, tol=1e-4)
    r.case("gspmd_pmap", jax.pmap(lambda a: a / lax.psum(a, "d"), axis_name="d"), np.abs(x) + 1)


def one_device(r):
    f = lambda x: lax.psum(x, "d") + lax.axis_index("d") + lax.all_gather(x, "d").sum(0) + lax.ppermute(x, "d", [(0, 0)])
    r.case("one_device_pmap", jax.pmap(f, axis_name="d", devices=jax.devices()[:1]), rand((1, 6)))
    one = jax.make_mesh((1,), ("d",), devices=jax.devices()[:1], axis_types=(AxisType.Auto,))
    r.case("one_device_map", jax.shard_map(lambda x: lax.psum_scatter(lax.pmax(x, "d"), "d", tiled=True), mesh=one, in_specs=P("d"), out_specs=P("d")), rand((4, 6)))


def kernels(r):
    for t in ("float32", "float64", "complex64", "complex128"):
        d, b = rand((2, 5), t) + 4, rand((2, 5, 3), t)
        low, up = rand((2, 5), t, 1), rand((2, 5), t, 2)
        f = lambda low, d, up, b: lax.linalg.tridiagonal_solve(low, d, up, b, perturb_singular=True)
        r.case(f"tridiagonal_{t}", f, low, d, up, b, x64=True)
        r.case(f"tridiagonal_swaps_{t}", f, low * 9, d * 0.1, up, b, x64=True, tol=1e-3 if t in ("float32", "complex64") else 1e-9)
        lower = lambda a: jnp.linalg.eigh(a, UPLO="L")
        upper = lambda a: jnp.linalg.eigh(a, UPLO="U")
        a = rand((2, 4, 4), t)
        r.case(f"eigh_lower_{t}", lower, a, x64=True, tol=1e-4 if t in ("float32", "complex64") else 1e-9)
        r.case(f"eigh_upper_{t}", upper, a, x64=True, tol=1e-4 if t in ("float32", "complex64") else 1e-9)
        dense = np.where(rand((6, 5), "bool"), rand((6, 5), t), 0)
        m = sparse.BCSR.fromdense(jnp.asarray(dense))
        r.case(f"bcsr_{t}", lambda v, i, p, x, y: (sparse.BCSR((v, i, p), shape=(6, 5)) @ x, sparse.BCSR((v, i, p), shape=(6, 5)) @ y), m.data, m.indices, m.indptr, rand((5, 3), t), rand((5,), t))
    r.case("eigh_tridiagonal", lambda d, e: jsp.linalg.eigh_tridiagonal(d, e, eigvals_only=True), rand((6,)), rand((5,)), tol=1e-4)
    r.case("approx_unfinished", lambda x: lax.approx_max_k(x, 4, reduction_dimension=1, aggregate_to_topk=False), rand((3, 16)))


def cases(r):
    with jax._src.config.use_shardy_partitioner(False):
        gspmd(r)
    one_device(r)
    kernels(r)
