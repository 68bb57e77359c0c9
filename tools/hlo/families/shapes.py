# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from record import rand


def cases(r):
    x = rand((3, 4, 5))
    r.case("broadcast", lambda x: (lax.broadcast(x, (2, 3)), jnp.broadcast_to(x[:, :1], (2, 3, 4, 5))), x)
    r.case("transpose", lambda x: (x.T, jnp.moveaxis(x, 0, 2), jnp.swapaxes(x, 1, 2)), x)
    r.case("reshape", lambda x: (x.reshape(-1), x.reshape(5, 12), x.reshape(1, 60, 1)[0, :, 0]), x)
    r.case("slice", lambda x: (x[1:, ::2, 4:1:-1], x[..., -1], x[None, 1], lax.slice(x, (0, 1, 2), (3, 4, 5), (2, 1, 2))), x)
    r.case("rev", lambda x: (jnp.flip(x), jnp.flip(x, 1), jnp.rot90(x)), x)
    r.case("pad", lambda x: (lax.pad(x, 1.0, ((1, 2, 0), (0, -1, 1), (-1, 0, 2))), jnp.pad(x, 2), jnp.pad(x, ((1, 1), (0, 0), (2, 0)), mode="reflect"),
           jnp.pad(x, 1, mode="edge"), jnp.pad(x, 1, mode="wrap"), jnp.pad(x, 1, mode="symmetric"),
           jnp.pad(x, 1, mode="linear_ramp"), jnp.pad(x, 1, mode="mean"), jnp.pad(x, 1, mode="maximum")), x)
    r.case("concat", lambda x: (jnp.concatenate([x, x * 2, x[:, :1].repeat(2, 1)], 1), jnp.stack([x, x]), jnp.hstack([x, x]),
           jnp.block([[x[0], x[1]], [x[2], x[0]]])), x)
    r.case("split", lambda x: (jnp.split(x, 2, 1), jnp.array_split(x, 3, 2)), x)
    r.case("tile", lambda x: (jnp.tile(x, (2, 1, 2)), jnp.repeat(x, 3, 1), jnp.repeat(x, np.array([1, 2, 0]), 0)), x)
    r.case("iota", lambda: (jnp.arange(7), jnp.arange(2, 9, 3), lax.broadcasted_iota("float32", (2, 3), 1), jnp.eye(3),
           jnp.linspace(0, 1, 7), jnp.logspace(0, 2, 5), jnp.tri(4, 5, 1), jnp.indices((2, 3)), jnp.geomspace(1., 8., 4)))
    for d in ("int8", "uint32", "float16", "bfloat16", "complex64", "int4", "bool"):
        r.case(f"iota_{d}", lambda: jnp.arange(6).astype(d) if d in ("bool",) else lax.broadcasted_iota(d, (2, 3), 1))
        r.case(f"const_{d}", lambda: (jnp.asarray(np.arange(6).reshape(2, 3) % 5, d), jnp.full((3,), 1, d)))
    r.case("const_big", lambda: jnp.asarray(rand((40, 30))) * 2)
    r.case("const_bools", lambda: (jnp.asarray(rand((33,), "bool")), jnp.asarray(np.ones(8, bool)), jnp.asarray(np.ones((3, 3), bool))))
    r.case("const_f16", lambda: jnp.asarray(rand((70,), "float16")) + jnp.asarray(np.array([np.inf, -np.inf, np.nan, 0, 1, 2, 3] * 10, "float16")))
    r.case("const_bf16", lambda: jnp.asarray(rand((70,)).astype(jnp.bfloat16)))
    r.case("const_c64", lambda: jnp.asarray(rand((40,), "complex64")))
    r.case("const_int64", lambda: jnp.asarray(np.array([2**62, -2**63, 7], np.int64)), x64=True)
    r.case("const_u64", lambda: jnp.asarray(np.array([2**64 - 1, 5], np.uint64)), x64=True)
    r.case("const_f64", lambda: jnp.asarray(rand((50,), "float64")), x64=True)
    r.case("const_f8", lambda: jnp.asarray(rand((50,)).astype(jnp.float8_e4m3fn)).astype("float32"))
    r.case("empty", lambda x: (x[:0], jnp.concatenate([x[:0], x]), x[:0].sum(), jnp.zeros((0, 3)) @ jnp.zeros((3, 2)),
           jnp.zeros((2, 0)) @ jnp.zeros((0, 2))), x)
    r.case("scalars", lambda x: (x + 1, x * 2.5, -x, x == 0), np.float32(3.5))
    r.case("meshgrid", lambda a, b: jnp.meshgrid(a, b), rand((3,)), rand((4,)))
    r.case("diag", lambda x: (jnp.diag(x[0, 0]), jnp.diagonal(x), jnp.trace(x), jnp.tril(x), jnp.triu(x, 1), jnp.diagflat(x[0, 0])), x)
    r.case("roll", lambda x: (jnp.roll(x, 2), jnp.roll(x, 1, 1), jnp.roll(x, (1, 2), (0, 2))), x)
    r.case("expand", lambda x: (x[:, None], jnp.squeeze(x[:1]), jnp.atleast_3d(x[0, 0]), jnp.expand_dims(x, (0, 3))), x)
    r.case("einsum", lambda x, y: (jnp.einsum("ijk,kl->ijl", x, y), jnp.einsum("ijk->kji", x), jnp.einsum("ijk,ijk->i", x, x),
           jnp.einsum("iij->j", x[:3, :3]), jnp.einsum("ijk,lk,l->ij", x, y.T, y[0])), x, rand((5, 6)))
    r.case("dynamic_slice", lambda x, i: (lax.dynamic_slice(x, (i, 0, i), (2, 4, 2)), lax.dynamic_index_in_dim(x, i, 1),
           lax.dynamic_update_slice(x, x[:1, :2] * 9, (i, i, 0)), lax.dynamic_update_index_in_dim(x, 7.0, i, 2)), x, np.int32(2))
    r.case("dynamic_slice_oob", lambda x, i: (lax.dynamic_slice(x, (i, i, -i), (2, 2, 2)), lax.dynamic_update_slice(x, x[:2, :2, :2], (i, -i, i))),
           x, np.int32(9))
    r.case("dynamic_slice_u8", lambda x, i: lax.dynamic_slice(x, (i, i, i), (2, 2, 2)), x, np.uint8(1))
    r.case("apply", lambda x: (jnp.apply_along_axis(jnp.sum, 1, x), jnp.apply_over_axes(jnp.sum, x, (0, 2))), x)
    r.case("optimization_barrier", lambda x: lax.optimization_barrier((x, x + 1)), x)
    r.case("tuple_out", lambda x: {"a": (x, [x[0]]), "b": None}, x)
    r.case("unused", lambda x, y: y * 2, x, rand((2,)))
    r.case("passthrough", lambda x, y: (y, x, y), x, rand((2,)))
    r.case("weak", lambda x: x + 1j, x)
