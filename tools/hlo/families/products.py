# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from record import rand


def cases(r):
    r.case("matmul3", lambda x, w, b: x @ w + b, rand((64, 32)), rand((32, 16)), rand((16,)))
    for d in ("float16", "bfloat16", "int32", "int8", "uint8", "complex64", "bool"):
        r.case(f"matmul_{d}", lambda x, y: x @ y, rand((4, 5), d), rand((5, 3), d))
    r.case("matmul_f64", lambda x, y: x @ y, rand((4, 5), "float64"), rand((5, 3), "float64"), x64=True)
    r.case("batched", lambda x, y: (x @ y, jnp.matmul(x, y[0]), jnp.einsum("bij,bjk->bik", x, y)), rand((2, 4, 5)), rand((2, 5, 3)))
    r.case("vectors", lambda x, y: (x @ y, jnp.dot(x, y), jnp.vdot(x, y), jnp.tensordot(x, y, 0)), rand((5,)), rand((5,), seed=1))
    r.case("dot_general", lambda x, y: (lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))), lax.dot_general(x, y, (((0, 2), (0, 1)), ((), ())))), rand((2, 3, 4)), rand((2, 4, 5)))
    r.case("preferred", lambda x, y: (lax.dot(x, y, preferred_element_type="int32"), lax.dot(x.astype("bfloat16"), y.astype("bfloat16"), preferred_element_type="float32")), rand((4, 5), "int8"), rand((5, 3), "int8"))
    r.case("precision", lambda x, y: (lax.dot(x, y, precision="highest"), jnp.matmul(x, y, precision="high")), rand((4, 5)), rand((5, 3)))
    r.case("algorithm", lambda x, y: lax.dot(x, y, precision=lax.DotAlgorithmPreset.F32_F32_F32), rand((4, 5)), rand((5, 3)))
    r.case("f8_dot", lambda x, y: lax.dot(x.astype(jnp.float8_e4m3fn), y.astype(jnp.float8_e5m2), preferred_element_type="float32"), rand((4, 5)), rand((5, 3)), tol=1e-4)
    r.case("mixed_dot", lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type="float32"), rand((4, 5), "float32"), rand((5, 3), "bfloat16"))
    r.case("int4_dot", lambda x, y: lax.dot(x, y, preferred_element_type="int32"), rand((4, 5), "int4"), rand((5, 3), "int4"))
    r.case("ragged_dot", lambda x, y, g: lax.ragged_dot(x, y, g), rand((8, 4)), rand((3, 4, 5)), np.array([2, 3, 3], np.int32))
    r.case("grads", jax.grad(lambda a: jnp.sum(jnp.tanh(a[0] @ a[1]) ** 2)), (rand((3, 4)), rand((4, 5))))
    dn = ("NHWC", "HWIO", "NHWC")
    x, k = rand((2, 8, 9, 4)), rand((3, 3, 4, 6))
    conv = lax.conv_general_dilated
    r.case("conv", lambda x, k: (conv(x, k, (1, 1), "SAME", dimension_numbers=dn), conv(x, k, (2, 1), "VALID", dimension_numbers=dn)), x, k, tol=1e-4)
    r.case("conv_dilated", lambda x, k: (conv(x, k, (1, 1), ((2, 1), (0, 3)), lhs_dilation=(2, 1), rhs_dilation=(1, 2), dimension_numbers=dn)), x, k, tol=1e-4)
    r.case("conv_groups", lambda x, k: conv(x, k, (1, 1), "SAME", dimension_numbers=dn, feature_group_count=2), x, rand((3, 3, 2, 6)), tol=1e-4)
    r.case("conv_depthwise", lambda x, k: conv(x, k, (1, 1), "SAME", dimension_numbers=dn, feature_group_count=4), x, rand((3, 3, 1, 8)), tol=1e-4)
    r.case("conv_batch_groups", lambda x, k: conv(x, k, (1, 1), "SAME", dimension_numbers=dn, batch_group_count=2), x, k, tol=1e-4)
    r.case("conv_nchw", lambda x, k: conv(x, k, (1, 1), "SAME"), rand((2, 3, 7, 6)), rand((5, 3, 3, 3)), tol=1e-4)
    r.case("conv1d", lambda x, k: conv(x, k, (1,), ((1, -1),)), rand((2, 3, 9)), rand((4, 3, 3)), tol=1e-4)
    r.case("conv3d", lambda x, k: conv(x, k, (1, 1, 1), "SAME"), rand((1, 2, 4, 5, 3)), rand((3, 2, 2, 2, 2)), tol=1e-4)
    r.case("conv_transpose", lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=dn), x, k, tol=1e-4)
    r.case("conv_grad", jax.grad(lambda a: jnp.sum(conv(a[0], a[1], (2, 1), "SAME", dimension_numbers=dn) ** 2)), (x, k), tol=1e-3)
    r.case("conv_group_grad", jax.grad(lambda a: jnp.sum(conv(a[0], a[1], (1, 1), "SAME", dimension_numbers=dn, feature_group_count=2) ** 2)), (x, rand((3, 3, 2, 6))), tol=1e-3)
    r.case("conv_bf16", lambda x, k: conv(x, k, (1, 1), "SAME", dimension_numbers=dn), x.astype(jnp.bfloat16), k.astype(jnp.bfloat16), tol=6e-2)
    r.case("conv_int", lambda x, k: conv(x, k, (1, 1), "SAME", dimension_numbers=dn, preferred_element_type="int32"), rand((1, 5, 5, 2), "int8"), rand((3, 3, 2, 3), "int8"))
    r.case("conv_complex", lambda x, k: conv(x, k, (1, 1), "SAME"), rand((1, 2, 4, 4), "complex64"), rand((2, 2, 3, 3), "complex64"), tol=1e-4)
    r.case("patches", lambda x: lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "SAME"), rand((1, 2, 5, 5)))
    r.case("conv_local", lambda x, k: lax.conv_general_dilated_local(x, k, (1, 1), "VALID", (3, 3)), rand((1, 2, 5, 5)), rand((3, 18, 3, 3)), tol=1e-4)
