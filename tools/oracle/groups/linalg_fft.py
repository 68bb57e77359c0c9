# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms and linear algebra."""
import numpy as np

from inputs import COMPLEX, uniform

G = "linalg"
LA = ["float32", "float64", "complex64", "complex128"]


def x(shape, dtype="float32", tag=""):
    return uniform("la" + tag + str(shape), shape, dtype, -1, 1)


def regular(n, dtype="float32", tag="", batch=()):
    """Well-conditioned: a random matrix plus n times the identity."""
    return x((*batch, n, n), dtype, tag) + (2 * np.eye(n)).astype(dtype)


def spd(n, dtype="float32", batch=()):
    a = x((*batch, n, n), dtype, "spd").astype("complex128" if dtype in COMPLEX else "float64")
    return (a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(n)).astype(dtype)


def both(rec, fn, args, params=None, kinds=("value", "vjp"), group=G, **kw):
    for kind in kinds:
        rec.case(group, fn, args, params, kind, tol="linalg", **kw)


def record(rec):
    ffts(rec)
    factorizations(rec)
    solves(rec)
    forms(rec)


def ffts(rec):
    case = lambda fn, a, p, kind="value": rec.case("fft", fn, [a], p, kind, tol="linalg")
    for n in (1, 2, 3, 5, 8, 12, 17):
        case("fft.fft", x((2, n), "complex64"), {})
        case("fft.ifft", x((n,), "complex128"), {})
        case("fft.rfft", x((n,), "float32"), {})
    for n in (2, 5, 8):
        case("fft.irfft", x((n,), "complex64"), {})
        case("fft.irfft", x((n,), "complex64"), {"n": 2 * n - 1})
    case("fft.fft", x((3, 4), "complex64"), {"axis": 0})
    case("fft.fft", x((5,), "float32"), {})
    case("fft.fft", x((5,), "int32"), {})
    for kind, dtype in (("FFT", "complex64"), ("IFFT", "complex64"), ("RFFT", "float32"), ("RFFT", "float64")):
        for shape, lengths in (((2, 6), [6]), ((4, 6), [4, 6]), ((3, 4, 5), [3, 4, 5]), ((2, 3, 4), [3, 4])):
            case("lax.fft", x(shape, dtype), {"fft_type": kind, "fft_lengths": lengths})
            case("lax.fft", x(shape, dtype), {"fft_type": kind, "fft_lengths": lengths}, "vjp")
    for shape, lengths in (((2, 4), [6]), ((4, 4), [4, 7]), ((3, 4, 3), [3, 4, 4])):
        case("lax.fft", x(shape, "complex64"), {"fft_type": "IRFFT", "fft_lengths": lengths})
        case("lax.fft", x(shape, "complex64"), {"fft_type": "IRFFT", "fft_lengths": lengths}, "vjp")
    for fn in ("fft2", "ifft2"):
        case("fft." + fn, x((2, 3, 4), "complex64"), {})
    case("fft.fft", x((6,), "complex64"), {}, "jvp")


def factorizations(rec):
    for dtype in LA:
        both(rec, "linalg.cholesky", [spd(4, dtype)], kinds=("value", "vjp"))
        both(rec, "program.lu_forms", [x((4, 4), dtype)], kinds=("value", "vjp"))
        for shape in ((4, 4), (5, 3), (3, 5)):
            both(rec, "program.qr_forms", [x(shape, dtype)], kinds=("value",))
            both(rec, "program.svd_forms", [x(shape, dtype)], kinds=("value",))
        both(rec, "program.eigh_forms", [spd(4, dtype)], kinds=("value",))
        for n in (2, 5):
            both(rec, "slinalg.hessenberg", [x((n, n), dtype)], {"calc_q": True}, kinds=("value",))
        both(rec, "lax.linalg.hessenberg", [x((2, 4, 4), dtype)], kinds=("value",))
        both(rec, "lax.linalg.householder_product", [x((4, 3), dtype), x((2,), dtype, "taus")], kinds=("value",))
        both(rec, "linalg.svd", [x((4, 3), dtype)], {"compute_uv": False}, kinds=("value",) if dtype in COMPLEX else ("value", "vjp"))
        both(rec, "linalg.eigvalsh", [spd(3, dtype)], kinds=("value",))
    both(rec, "linalg.cholesky", [spd(3, batch=(2,))])
    both(rec, "linalg.cholesky", [spd(1)])
    both(rec, "linalg.cholesky", [np.zeros((0, 0), np.float32)], kinds=("value",), note="empty")
    both(rec, "linalg.cholesky", [-spd(3)], kinds=("value",), note="not positive")
    both(rec, "linalg.cholesky", [spd(3, "float64")], kinds=("jvp", "grad2"))
    both(rec, "slinalg.hessenberg", [x((1, 1))], {"calc_q": True}, kinds=("value",))
    both(rec, "slinalg.hessenberg", [x((2, 3, 3))], {"calc_q": False}, kinds=("value",))
    both(rec, "slinalg.hessenberg", [np.zeros((0, 0), np.float32)], {"calc_q": True}, kinds=("value",), note="empty")
    both(rec, "lax.linalg.householder_product", [x((2, 3, 3)), x((2, 3), tag="taus")], kinds=("value",))
    both(rec, "program.lu_forms", [x((2, 5, 3))], kinds=("value",))
    both(rec, "program.lu_forms", [x((3, 5))])
    both(rec, "program.svd_full_forms", [x((4, 3))], kinds=("value",))
    both(rec, "program.svd_forms", [x((2, 3, 3))], kinds=("value",))
    both(rec, "program.eigh_power", [x((4, 4))])
    both(rec, "program.eigh_power", [x((2, 3, 3), "float64")], kinds=("value", "vjp", "jvp"))
    both(rec, "program.qr_projector", [x((4, 3), "float64")], kinds=("value", "vjp"))
    both(rec, "program.qr_projector", [x((3, 3), "float32")], kinds=("value", "vjp"))


def solves(rec):
    for dtype in LA:
        t = regular(4, dtype)
        for left in (True, False):
            for lower in (True, False):
                b = x((4, 2) if left else (2, 4), dtype, "b")
                params = {"left_side": left, "lower": lower}
                both(rec, "lax.linalg.triangular_solve", [t, b], params, kinds=("value", "vjp") if dtype != "complex128" else ("value",))
        both(rec, "lax.linalg.triangular_solve", [t, x((4, 2), dtype, "b")], {"left_side": True, "lower": True, "transpose_a": True},
             kinds=("value", "vjp"))
        both(rec, "lax.linalg.triangular_solve", [t, x((4, 2), dtype, "b")], {"left_side": True, "lower": True, "unit_diagonal": True},
             kinds=("value", "vjp"))
        both(rec, "linalg.solve", [regular(3, dtype), x((3, 2), dtype, "b")])
        both(rec, "linalg.inv", [regular(3, dtype)])
        both(rec, "linalg.det", [regular(3, dtype)])
        both(rec, "linalg.slogdet", [regular(3, dtype)], kinds=("value",))
    both(rec, "lax.linalg.triangular_solve", [regular(3, "complex64"), x((3, 2), "complex64", "b")],
         {"left_side": True, "lower": True, "transpose_a": True, "conjugate_a": True}, kinds=("value",))
    both(rec, "lax.linalg.triangular_solve", [regular(3, batch=(2,)), x((2, 3, 2), tag="b")], {"left_side": True, "lower": True})
    both(rec, "linalg.solve", [regular(3), x((3,), tag="b")])
    both(rec, "linalg.solve", [regular(3, batch=(2,)), x((2, 3, 1), tag="b")])
    both(rec, "linalg.solve", [regular(3, "float64"), x((3,), "float64", "b")], kinds=("jvp", "grad2"))
    both(rec, "linalg.inv", [regular(2, batch=(3,))])
    both(rec, "linalg.det", [regular(1)])
    both(rec, "linalg.det", [regular(2)])
    both(rec, "linalg.det", [regular(4)])
    both(rec, "linalg.slogdet", [regular(4)])
    both(rec, "linalg.slogdet", [-regular(3)], kinds=("value",))
    both(rec, "slinalg.solve_triangular", [regular(3), x((3, 2), tag="b")], {"lower": True}, kinds=("value",))


def forms(rec):
    for p in ({}, {"ord": 1}, {"axis": 1}, {"axis": 0, "keepdims": True}, {"ord": "inf", "axis": 1}, {"ord": 3, "axis": 0}):
        both(rec, "linalg.norm", [x((3, 4))], p, kinds=("value", "vjp"))
    both(rec, "linalg.norm", [x((5,), "complex64")], {}, kinds=("value",))
    both(rec, "linalg.matrix_power", [regular(3)], {"n": 3}, kinds=("value",))
    both(rec, "linalg.matrix_power", [regular(3)], {"n": -2}, kinds=("value",))
    both(rec, "linalg.pinv", [x((4, 3))], kinds=("value",))
    both(rec, "linalg.matrix_rank", [x((4, 3))], kinds=("value",))
