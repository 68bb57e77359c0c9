# SPDX-License-Identifier: Apache-2.0
"""dot_general, matmul, einsum and convolutions."""
import numpy as np

from inputs import COMPLEX, FLOATS, INTS, uniform

G = "products"


def x(shape, dtype="float32", tag=""):
    return uniform("prod" + tag + str(shape), shape, dtype, -2, 2)


def record(rec):
    dots(rec)
    matmuls(rec)
    einsums(rec)
    convolutions(rec)


DOTS = [((3, 4), (4, 5), [[1], [0]], [[], []]), ((4,), (4,), [[0], [0]], [[], []]), ((3, 4), (4,), [[1], [0]], [[], []]),
        ((2, 3, 4), (2, 4, 5), [[2], [1]], [[0], [0]]), ((3, 2, 4), (4, 5, 2), [[2], [0]], [[1], [2]]),
        ((2, 3, 4), (4, 3, 5), [[1, 2], [1, 0]], [[], []]), ((2, 3), (4,), [[], []], [[], []]), ((3, 0), (0, 2), [[1], [0]], [[], []]),
        ((0, 3), (3, 2), [[1], [0]], [[], []]), ((2, 3), (2, 3), [[], []], [[0, 1], [0, 1]]), ((), (3,), [[], []], [[], []]),
        ((4, 3), (5, 3), [[1], [1]], [[], []]), ((2, 5, 3, 4), (5, 2, 4, 3), [[2], [3]], [[0, 1], [1, 0]])]


def dots(rec):
    for a, b, contract, batch in DOTS:
        params = {"dimension_numbers": [contract, batch]}
        rec.case(G, "lax.dot_general", [x(a), x(b, tag="r")], params, tol="reduce")
        if 0 not in a + b:
            rec.case(G, "lax.dot_general", [x(a), x(b, tag="r")], params, "vjp", tol="reduce")
    params = {"dimension_numbers": [[[1], [0]], [[], []]]}
    for dtype in ["bool"] + INTS + FLOATS + COMPLEX:
        rec.case(G, "lax.dot_general", [x((3, 4), dtype), x((4, 2), dtype, "r")], params, tol="reduce")
        if dtype in FLOATS + COMPLEX:
            rec.case(G, "lax.dot_general", [x((3, 4), dtype), x((4, 2), dtype, "r")], params, "jvp", tol="reduce")
    rec.case(G, "lax.dot_general", [x((3, 4)), x((4, 2), tag="r")], params, "grad2", tol="reduce")
    for dtype, out in (("bfloat16", "float32"), ("float16", "float32"), ("float32", "float64"), ("int8", "int32"), ("int16", "int64"),
                       ("uint8", "uint32"), ("complex64", "complex128"), ("int8", "float32")):
        p = {**params, "preferred_element_type": out}
        rec.case(G, "lax.dot_general", [x((3, 4), dtype), x((4, 2), dtype, "r")], p, tol="reduce", may_fail=True)
        if dtype in FLOATS:
            rec.case(G, "lax.dot_general", [x((3, 4), dtype), x((4, 2), dtype, "r")], p, "vjp", tol="reduce")
    rec.case(G, "lax.dot_general", [x((33, 65)), x((65, 17), tag="r")], params, tol="reduce", note="odd")


def matmuls(rec):
    for a, b in (((3, 4), (4, 2)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((2, 3, 4), (4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((3,), (2, 3, 2))):
        rec.case(G, "jnp.matmul", [x(a), x(b, tag="r")], tol="reduce")
        rec.case(G, "jnp.matmul", [x(a), x(b, tag="r")], kind="vjp", tol="reduce")
    rec.case(G, "operator.matmul", [x((3, 4), "int8"), x((4, 2), "float32", "r")], tol="reduce")
    rec.case(G, "jnp.matmul", [x((3, 4), "bfloat16"), x((4, 2), "float32", "r")], tol="reduce")
    for fn in ("dot", "inner", "outer", "vdot", "kron"):
        rec.case(G, "jnp." + fn, [x((4,)), x((4,), tag="r")], tol="reduce")
        rec.case(G, "jnp." + fn, [x((4,), "complex64"), x((4,), "complex64", "r")], tol="reduce")
    rec.case(G, "jnp.dot", [x((2, 3)), x((3, 2), tag="r")], tol="reduce")
    rec.case(G, "jnp.dot", [x((2, 3, 4)), x((5, 4, 2), tag="r")], tol="reduce")
    rec.case(G, "jnp.kron", [x((2, 3)), x((2, 2), tag="r")], tol="reduce")
    rec.case(G, "jnp.kron", [x((2, 3)), x((2, 2), tag="r")], kind="vjp", tol="reduce")
    rec.case(G, "jnp.cross", [x((2, 3)), x((2, 3), tag="r")], tol="reduce")
    for axes in (1, 2, [[0, 1], [1, 0]], [[1], [0]]):
        a, b = ((2, 3), (3, 2)) if axes != 2 else ((4, 2, 3), (2, 3, 5))
        rec.case(G, "jnp.tensordot", [x(a), x(b, tag="r")], {"axes": axes}, tol="reduce")


EINSUMS = [("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij->ji", (2, 3)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("ij->", (2, 3)),
           ("ij->i", (2, 3)), ("i,i->", (4,), (4,)), ("i,j->ij", (2,), (3,)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
           ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 2)), ("...i,i->...", (2, 3, 4), (4,)), ("ij,jk,kl->il", (2, 3), (3, 2), (2, 4)),
           ("bhqd,bhkd->bhqk", (1, 2, 3, 4), (1, 2, 2, 4)), ("ijk,ijk->k", (2, 3, 4), (2, 3, 4)), ("ij,ij->ij", (2, 3), (2, 3)),
           ("abc,cd,def->abef", (2, 3, 2), (2, 3), (3, 2, 2)), ("i,i,i->i", (3,), (3,), (3,)), ("iij->j", (3, 3, 2)), ("ab,b->", (2, 3), (3,)),
           ("bqhd,bkhd->bhqk", (1, 3, 2, 4), (1, 2, 2, 4)), ("ij,kl->ijkl", (2, 2), (2, 2)), ("...ij->...ji", (2, 3, 4)), ("ba,cb->ac", (3, 2), (4, 3)),
           ("i->", (4,)), (",i->i", (), (3,)), ("bd,de->be", (0, 3), (3, 2)), ("a...,a...->...", (2, 3), (2, 3))]


def einsums(rec):
    for sub, *shapes in EINSUMS:
        args = [x(s, tag=f"e{i}") for i, s in enumerate(shapes)]
        rec.case(G, "jnp.einsum", args, {"subscripts": sub}, tol="reduce", note=sub)
        if all(a.size for a in args):
            rec.case(G, "jnp.einsum", args, {"subscripts": sub}, "vjp", tol="reduce", note=sub)
    for dtype in ("int32", "bfloat16", "float64", "complex64"):
        rec.case(G, "jnp.einsum", [x((2, 3), dtype), x((3, 4), dtype, "r")], {"subscripts": "ij,jk->ik"}, tol="reduce")


# input shape, kernel shape, and parameters other than the defaults
CONVS = [
    ((1, 2, 6), (3, 2, 3), {}), ((2, 3, 7), (4, 3, 2), {"window_strides": [2], "padding": "SAME"}),
    ((1, 2, 5, 6), (3, 2, 2, 3), {}), ((1, 2, 5, 6), (3, 2, 2, 3), {"padding": "SAME", "window_strides": [2, 1]}),
    ((1, 2, 6, 6), (2, 2, 3, 3), {"padding": [[1, 2], [0, 1]]}), ((1, 2, 7, 7), (2, 2, 2, 2), {"rhs_dilation": [2, 3]}),
    ((1, 2, 4, 4), (2, 2, 3, 3), {"lhs_dilation": [2, 1], "padding": [[1, 1], [1, 1]]}),
    ((1, 4, 5, 5), (6, 2, 3, 3), {"feature_group_count": 2}), ((1, 3, 5, 5), (3, 1, 3, 3), {"feature_group_count": 3, "padding": "SAME"}),
    ((4, 2, 5, 5), (4, 2, 2, 2), {"batch_group_count": 2}),
    ((1, 5, 6, 2), (2, 3, 2, 3), {"dimension_numbers": ["NHWC", "HWIO", "NHWC"]}),
    ((2, 4, 4, 3), (3, 3, 3, 2), {"dimension_numbers": ["NHWC", "HWIO", "NHWC"], "padding": "SAME", "window_strides": [2, 2]}),
    ((5, 1, 2, 4), (3, 2, 2, 2), {"dimension_numbers": ["WNCH", "WHIO", "NWHC"]}), ((1, 5, 2), (3, 2, 4), {"dimension_numbers": ["NWC", "WIO", "NWC"]}),
    ((1, 1, 3, 4, 4), (2, 1, 2, 2, 2), {}), ((2, 3), (4, 3), {}), ((1, 2, 6, 6), (2, 2, 2, 2), {"padding": [[-1, 0], [0, -1]]}),
    ((1, 2, 0, 4), (2, 2, 1, 2), {}),
    ((1, 4, 4, 4), (8, 2, 3, 3), {"feature_group_count": 2, "rhs_dilation": [2, 2], "padding": [[2, 2], [2, 2]], "window_strides": [2, 2]}),
]


def convolutions(rec):
    for a, b, changes in CONVS:
        spatial = len(a) - 2
        params = {"window_strides": [1] * spatial, "padding": "VALID", **changes}
        rec.case(G, "lax.conv_general_dilated", [x(a), x(b, tag="k")], params, tol="reduce")
        if 0 not in a:
            rec.case(G, "lax.conv_general_dilated", [x(a), x(b, tag="k")], params, "vjp", tol="reduce")
    rec.case(G, "lax.conv_general_dilated", [x((1, 2, 4, 4)), x((2, 2, 2, 2), tag="k")], {"window_strides": [1, 1], "padding": "VALID"},
             "jvp", tol="reduce")
    rec.case(G, "lax.conv_general_dilated", [x((1, 2, 4)), x((2, 2, 2), tag="k")], {"window_strides": [1], "padding": "VALID"}, "grad2",
             tol="reduce")
    for dtype in ("float16", "bfloat16", "float64", "int32", "int8", "complex64"):
        rec.case(G, "lax.conv_general_dilated", [x((1, 2, 5, 5), dtype), x((2, 2, 2, 2), dtype, "k")],
                 {"window_strides": [1, 1], "padding": "VALID"}, tol="reduce", may_fail=True)
    rec.case(G, "lax.conv_transpose", [x((1, 4, 4, 2)), x((3, 3, 2, 3), tag="k")], {"strides": [2, 2], "padding": "SAME"}, tol="reduce")
    rec.case(G, "lax.conv_transpose", [x((1, 4, 2)), x((3, 2, 3), tag="k")], {"strides": [2], "padding": "VALID"}, tol="reduce")
    rec.case(G, "lax.conv", [x((1, 2, 5, 5)), x((3, 2, 2, 2), tag="k")], {"window_strides": [1, 1], "padding": "SAME"}, tol="reduce")
    for mode in ("full", "same", "valid"):
        rec.case(G, "jnp.convolve", [x((5,)), x((3,), tag="k")], {"mode": mode}, tol="reduce")
