# SPDX-License-Identifier: Apache-2.0
"""Functions composed of others: creation, shaping, statistics, calculus, sets, transforms, norms, distributions, layers;
each with gradients where it has them."""
import numpy as np

from inputs import Scalar, distinct, key, uniform

F = np.float32


def x(shape, dtype="float32", tag="", lo=-3, hi=3):
    return uniform("lib" + tag + str(shape), shape, dtype, lo, hi)


def d(shape, dtype="float32", tag=""):
    return distinct("lib" + tag + str(shape), shape, dtype)


class Group:
    def __init__(self, rec, name, space, tol):
        self.rec, self.name, self.space, self.tol = rec, name, space, tol

    def __call__(self, fn, *args, grad=True, tol=None, wrt=None, note="", **params):
        fn = fn if "." in fn else self.space + "." + fn
        self.rec.case(self.name, fn, list(args), params, tol=tol or self.tol, note=note)
        if grad:
            self.rec.case(self.name, fn, list(args), params, "vjp", wrt, tol=tol or "reduce", note=note)


def record(rec):
    creation(rec)
    shaping(rec)
    statistics(rec)
    calculus(rec)
    sets(rec)
    fourier(rec)
    linear(rec)
    products(rec)
    distributions(rec)
    layers(rec)


def creation(rec):
    g = Group(rec, "creation", "jnp", "trans")
    for k in (-2, 0, 1):
        g("diag", x((4,)), k=k)
        g("diag", x((3, 5)), k=k)
        g("diagflat", x((2, 2)), k=k)
    g("vander", x((4,)))
    g("vander", x((3,)), N=5, increasing=True)
    g("vander", x((3,), "int32"), grad=False)
    g("meshgrid", x((2,)), x((3,)), x((4,)), indexing="ij")
    g("meshgrid", x((2,)), x((3,)), sparse=True)
    g("indices", dimensions=[2, 3], grad=False)
    for fn in ("tril_indices", "triu_indices"):
        g(fn, n=4, grad=False)
        g(fn, n=3, k=-1, m=5, grad=False)
    g("diag_indices", n=3, ndim=3, grad=False)
    for fn in ("bartlett", "blackman", "hamming", "hanning"):
        g(fn, M=7, grad=False)
        g(fn, M=1, grad=False)
    g("kaiser", M=6, beta=4.5, grad=False, tol="special")
    g("linspace", x((3,)), x((3,), tag="b"), num=4)
    g("linspace", x((2, 1)), x((3,)), num=3, axis=-1, endpoint=False)
    g("linspace", x((), "complex64"), x((), "complex64", "b"), num=3, grad=False)
    g("logspace", x((2,), lo=0, hi=2), x((2,), tag="b", lo=0, hi=2), num=3, base=2.0)
    g("geomspace", x((2,), lo=1, hi=4), x((2,), tag="b", lo=5, hi=9), num=4, tol="special")
    g("geomspace", x((2,), lo=1, hi=4), x((2,), tag="b", lo=5, hi=9), num=4, axis=1, grad=False, tol="special")
    for dtype in ("float16", "bfloat16", "float64", "int32"):
        g("linspace", Scalar(0), Scalar(7), num=5, dtype=dtype, grad=False)
        g("arange", Scalar(1), Scalar(9), Scalar(2), dtype=dtype, grad=False)
    g("arange", Scalar(0.5), Scalar(3.0), grad=False)
    g("arange", Scalar(3.0), Scalar(0.0), Scalar(-0.5), dtype="float16", grad=False)


def shaping(rec):
    g = Group(rec, "shaping", "jnp", "exact")
    for fn in ("hstack", "vstack", "dstack", "column_stack"):
        g(fn, x((3,)), x((3,), tag="b"))
        g(fn, x((3, 2)), x((3, 2), tag="b"))
    g("append", x((2, 3)), x((4,)))
    g("append", x((2, 3)), x((1, 3)), axis=0)
    g("insert", x((4,)), F(9), obj=2)
    g("insert", x((3, 4)), x((4,), tag="b"), obj=[0, 2], axis=0)
    g("insert", x((3, 2)), x((3, 1), tag="b"), obj=[-1], axis=1)
    g("delete", x((3, 4)), obj=[1], axis=1)
    g("delete", x((5,)), obj=[0, -1])
    g("array_split", x((7, 2)), indices_or_sections=3)
    g("array_split", x((2, 5)), indices_or_sections=4, axis=1)
    g("hsplit", x((2, 4)), indices_or_sections=2)
    g("vsplit", x((4, 2)), indices_or_sections=2)
    g("dsplit", x((2, 2, 4)), indices_or_sections=2)
    g("unstack", x((3, 2)))
    g("unstack", x((3, 2)), axis=1)
    g("broadcast_arrays", x((3, 1)), x((4,)))
    g("program.block", x((2, 3)), x((2, 1)), x((1, 3)), x((1, 1)))
    for k in (-1, 1, 2, 4):
        g("rot90", x((2, 3)), k=k)
    g("rot90", x((2, 3, 2)), axes=[2, 0])
    g("rollaxis", x((2, 3, 4)), axis=2)
    g("rollaxis", x((2, 3, 4)), axis=0, start=-1)
    g("resize", x((2, 3)), new_shape=[3, 3])
    g("fliplr", x((2, 3)))
    g("flipud", x((2, 3)))
    g("matrix_transpose", x((2, 3, 4)))
    g("permute_dims", x((2, 3, 4)), axes=[2, 0, 1])
    for fn in ("atleast_1d", "atleast_2d", "atleast_3d"):
        for shape in ((), (3,), (2, 3), (2, 1, 3)):
            g(fn, x(shape))
    g("repeat", x((3, 2)), np.array([1, 0, 2], np.int32), axis=0, total_repeat_length=3)
    g("repeat", x((3,)), np.array([2, 1, 1], np.int32), total_repeat_length=6)
    g("repeat", x((2, 3)), repeats=0, axis=1)
    a = d((3, 4))
    wide = [[2, 1], [3, 5]]
    for mode in ("edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "mean", "minimum"):
        g("pad", a, pad_width=wide, mode=mode, tol="reduce")
    g("pad", a, pad_width=wide, mode="median", grad=False, tol="reduce")
    g("pad", a, pad_width=[[1, 1], [0, 2]], mode="reflect", reflect_type="odd", tol="reduce")
    g("pad", a, pad_width=[[5, 0], [0, 9]], mode="symmetric", reflect_type="odd", tol="reduce")
    g("pad", a, pad_width=[[1, 2], [0, 2]], mode="mean", stat_length=2, tol="reduce")
    g("pad", a, pad_width=2, mode="linear_ramp", end_values=1.5, tol="reduce")
    g("pad", np.arange(6, dtype=np.int32).reshape(2, 3), pad_width=1, mode="mean", grad=False)
    g("pad", np.arange(3, dtype=np.int8), pad_width=[[2, 2]], mode="wrap", grad=False)
    for p in ({}, {"offset": -1}, {"offset": 2}, {"axis1": 2, "axis2": 0}, {"offset": 9}):
        g("diagonal", x((3, 4, 2)), **p)
    for p in ({}, {"offset": -1}, {"axis1": 1, "axis2": 2}):
        g("trace", x((3, 4, 2)), tol="reduce", **p)
    g("trace", x((3, 3), "int8"), dtype="int32", grad=False)
    g("fill_diagonal", x((3, 4)), F(7))
    g("fill_diagonal", x((3, 3)), x((3,), tag="b"))
    g("put_along_axis", x((3, 4)), np.array([[0], [3], [-1]], np.int32), x((3, 1), tag="b"), axis=1)
    g("put_along_axis", x((3, 4)), np.array([[2, 0, 1, 2]], np.int32), F(5), axis=0)


def statistics(rec):
    g = Group(rec, "statistics", "jnp", "reduce")
    a = d((3, 5))
    n = a.copy()
    n[0, 1] = n[2, 2] = n[2, 4] = np.nan
    allnan = n.copy()
    allnan[1] = np.nan
    for method in ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf"):
        for q in (F(0.3), np.array([0, 0.25, 0.9, 1], F)):
            g("quantile", a, q, axis=1, method=method, wrt=[0], grad=method != "inverted_cdf")
        g("quantile", n, F(0.4), axis=1, method=method, grad=False)
        g("nanquantile", n, np.array([0.1, 0.5], F), axis=1, method=method, grad=False)
    g("quantile", a, F(0.5), axis=[0, 1], keepdims=True, wrt=[0])
    g("quantile", d((2, 3, 4)), np.array([0.2, 0.7], F), axis=[0, 2], keepdims=True, wrt=[0])
    g("quantile", d((4, 3), "int32"), F(0.35), axis=0, grad=False)
    g("quantile", d((6,), "float16"), np.float16(0.35), grad=False)
    g("quantile", d((6,), "float64"), np.float64(0.35), wrt=[0])
    g("nanquantile", allnan, F(0.5), axis=1, keepdims=True, grad=False)
    g("percentile", a, np.array([10, 60], F), axis=0, wrt=[0])
    g("nanpercentile", n, F(35), axis=1, grad=False)
    g("percentile", a, Scalar(50), wrt=[0])
    for p in ({}, {"axis": 1}, {"axis": [0, 1], "keepdims": True}):
        g("median", a, **p)
        g("nanmedian", n, grad=False, **p)
    g("median", d((4,), "int32"), grad=False)
    for p in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}):
        for fn in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"):
            g(fn, n, **p)
        for fn in ("nanmax", "nanmin", "nanmean", "nanvar"):
            g(fn, allnan, grad=False, note="all nan", **p)
        g("ptp", a, **p)
        g("count_nonzero", x((3, 4), "int32", lo=0, hi=2), grad=False, **p)
    for dtype in ("int8", "uint16", "bool", "float16", "float64", "complex64"):
        for fn in ("nansum", "nanmean"):
            g(fn, x((4,), dtype), grad=False)
    g("nanvar", n, axis=1, ddof=1)
    g("nanvar", x((3, 4), "complex64"), axis=1, grad=False)
    for fn in ("nanargmax", "nanargmin"):
        g(fn, n, grad=False)
        g(fn, allnan, axis=1, grad=False)
        g(fn, allnan, axis=1, keepdims=True, grad=False)
    for fn in ("nancumsum", "nancumprod"):
        g(fn, n)
        g(fn, n, axis=1)
    for fn in ("cumulative_sum", "cumulative_prod"):
        g(fn, x((5,)))
        g(fn, x((3, 4)), axis=1, include_initial=True)
        g(fn, x((4,), "int8"), grad=False)
        g(fn, x((4,), "bool"), grad=False)
        g(fn, x((4,), "int32"), dtype="float32", grad=False)
    w = np.abs(x((5,), tag="w")) + F(0.1)
    g("average", a)
    g("average", a, w, axis=1)
    g("average", a, np.abs(x((3, 5), tag="w")) + F(0.1))
    g("average", a, w, axis=1, keepdims=True)
    g("average", x((4,), "int32"), grad=False)
    for p in ({}, {"rowvar": False}, {"bias": True}, {"ddof": 2}):
        g("cov", a, **p)
    g("cov", a, x((3, 5), tag="y"))
    g("cov", a, x((5,), tag="y"))
    g("cov", x((6,)))
    g("cov", x((2, 4), "complex64"), grad=False)
    g("program.cov_weights", a, np.array([1, 2, 1, 0, 3], np.int32), w, ddof=None)
    g("program.cov_weights", a, np.array([1, 2, 1, 0, 3], np.int32), w, ddof=0)
    g("corrcoef", a)
    g("corrcoef", a, rowvar=False, grad=False)
    g("corrcoef", x((5,)), x((5,), tag="y"), grad=False)
    s = x((40,), lo=0, hi=6)
    g("histogram", s, bins=7, grad=False)
    g("histogram", s, grad=False)
    g("histogram", s, bins=4, range=[1.0, 5.0], density=True, grad=False)
    g("histogram", np.full((3,), 2, F), bins=3, grad=False)
    g("histogram", x((9,), "int32", lo=0, hi=5), bins=5, grad=False)
    g("program.histogram_edges", s, np.array([0, 1, 2.5, 6], F), density=False, grad=False)
    g("program.histogram_edges", s, np.array([0, 1, 2.5, 6], F), density=True, grad=False)
    g("program.histogram_weights", s, np.abs(x((40,), tag="w")), bins=4, density=False, wrt=[1])
    g("histogram2d", s, x((40,), tag="y"), bins=3, grad=False)
    g("histogramdd", x((30, 2)), bins=[3, 4], grad=False)
    g("histogramdd", x((30, 2)), bins=[3, 2], density=True, grad=False)
    g("histogram_bin_edges", s, bins=4, grad=False)
    b = np.array([1, 1, 4, 0, 7, 2], np.int32)
    g("bincount", b, length=5, grad=False)
    g("bincount", b, length=9, grad=False)
    g("bincount", b, x((6,)), length=8)
    g("bincount", b - 2, length=4, grad=False, note="negative")
    for right in (False, True):
        g("digitize", x((6,)), np.array([2, 1, 0, -1.5], F), right=right, grad=False, note="falling")
        g("digitize", x((4,), "int32"), np.array([-1, 1, 2], np.int32), right=right, grad=False)


def calculus(rec):
    g = Group(rec, "calculus", "jnp", "reduce")
    for p in ({}, {"n": 2}, {"n": 3, "axis": 0}, {"n": 0}):
        g("diff", x((4, 5)), **p)
    g("diff", x((5,), "bool"), grad=False)
    g("diff", x((5,), "uint8"), grad=False)
    g("program.diff_ends", x((2, 3)), F(1.5), x((2, 2), tag="e"))
    g("ediff1d", x((2, 3)))
    g("gradient", x((4, 5)))
    g("gradient", x((4, 5)), axis=1)
    g("gradient", x((6,)), F(0.5))
    g("gradient", x((5,)), np.array([0, 1, 1.5, 3, 4], F))
    g("gradient", x((3, 4)), F(2), F(0.5))
    g("gradient", x((5,), "int32"), grad=False)
    g("trapezoid", x((3, 5)))
    g("trapezoid", x((3, 5)), dx=0.5, axis=0)
    g("trapezoid", x((3, 5)), np.array([0, 1, 1.5, 3, 4], F))
    g("trapezoid", x((3, 5)), np.sort(x((3, 5), tag="x"), 0), axis=0)
    xp, fp = np.array([0, 1, 2.5, 4], F), x((4,), tag="fp")
    at = np.array([-1, 0.3, 1, 2, 3.9, 7], F)
    g("interp", at, xp, fp)
    g("interp", at, xp, fp, left=-5.0, right=9.0)
    g("interp", at, xp, fp, left="extrapolate", right="extrapolate")
    g("interp", at, xp, fp, period=4.5, grad=False)
    g("interp", np.array([1, 2, 3], np.int32), xp, fp, grad=False)
    g("interp", at, np.array([0, 1, 1, 4], F), fp, grad=False, note="step")
    p = np.cumsum(x((9,), lo=0, hi=5)).astype(F)
    g("unwrap", p % F(2 * np.pi))
    g("unwrap", p % F(2 * np.pi), discont=4.0)
    g("unwrap", (x((3, 4)) * 3).astype(F), axis=0, period=4.0)
    g("unwrap", np.array([0, 3, 1, 2, 0], np.int32), period=4, grad=False)
    for fn in ("convolve", "correlate"):
        for mode in ("full", "same", "valid"):
            g(fn, x((6,)), x((3,), tag="k"), mode=mode)
            g(fn, x((3,)), x((4,), tag="k"), mode=mode)
        g(fn, x((4,), "complex64"), x((2,), "complex64", "k"), grad=False)
        g(fn, x((4,), "int32"), x((2,), "int32", "k"), grad=False)
    g("polyval", x((4,)), x((2, 3)))
    g("polyval", x((3,), "int32"), x((4,), "int32"), grad=False)
    g("polyadd", x((4,)), x((2,)))
    g("polysub", x((2,)), x((3,)))
    g("polymul", x((3,)), x((4,)))
    g("polydiv", x((5,)), np.array([1.5, 0.3, -1], F))
    g("polydiv", x((2,)), x((3,)), grad=False)
    for m in (0, 1, 2):
        g("polyder", x((5,)), m=m)
        g("polyint", x((4,)), m=m)
    g("poly", x((4,)))
    g("polyfit", np.array([0, 1, 2, 3, 4], F), x((5,)), deg=2, grad=False, tol="linalg")
    g("polyfit", np.array([0, 1, 2, 3, 4], F), x((5, 2)), deg=1, grad=False, tol="linalg")


def sets(rec):
    g = Group(rec, "sets", "jnp", "exact")
    a = x((3, 4), "int32", lo=0, hi=3)
    v = np.array([3, 1, 2, 3, 1, 7], np.int32)
    f = np.array([1.5, np.nan, 0, 1.5, np.nan, -2], F)
    for p in ({"size": 4}, {"size": 15, "fill_value": -1}):
        g("nonzero", a, grad=False, **p)
        g("flatnonzero", a, grad=False, **p)
        g("argwhere", a, grad=False, **p)
        g("unique", v, grad=False, **p)
        g("unique", f, grad=False, **p)
        g("unique", v, return_index=True, return_inverse=True, return_counts=True, grad=False, **p)
        g("intersect1d", v, np.array([1, 7, 9], np.int32), grad=False, **p)
        g("setdiff1d", v, np.array([1, 9], np.int32), grad=False, **p)
        g("union1d", v, np.array([1, 9], np.int32), grad=False, **p)
        g("setxor1d", v, np.array([1, 9], np.int32), grad=False, **p)
    g("compress", np.array([True, False, True]), x((3, 4)), axis=0, size=3, fill_value=-1, grad=False)
    g("extract", a > 1, x((3, 4)), size=4, grad=False)
    g("isin", a, np.array([0, 2], np.int32), grad=False)
    g("isin", a, np.array([0, 2], np.int32), invert=True, grad=False)
    g("isin", a, np.zeros((0,), np.int32), grad=False)
    g("program.lexsort", x((6,), "int32", "a", 0, 3), x((6,), "int32", "b", 0, 3), grad=False)
    g("program.lexsort", x((2, 4), "float32"), grad=False)
    g("program.partition_forms", d((7,)), kth=3, grad=False)
    g("unravel_index", np.array([0, 7, 23, 99, -1], np.int32), shape=[2, 3, 4], grad=False)
    for mode in ("clip", "wrap"):
        g("program.ravel_multi_index", np.array([0, 1, 5], np.int32), np.array([2, -1, 1], np.int32), dims=[3, 4], mode=mode, grad=False)
    g("program.ix", np.array([0, 2], np.int32), np.array([1, 3, 4], np.int32), grad=False)


def fourier(rec):
    g = Group(rec, "fourier", "fft", "linalg")
    for fn in ("fft", "ifft", "rfft", "hfft", "ihfft", "irfft"):
        real = fn in ("rfft", "ihfft")
        v = x((3, 6)) if real else x((3, 6), "complex64")
        for p in ({}, {"n": 4}, {"n": 9, "axis": 0}, {"norm": "ortho"}, {"norm": "forward", "axis": 0}):
            g(fn, v, tol="linalg", **p)
    for fn in ("fftn", "ifftn", "rfftn", "irfftn"):
        v = x((3, 4, 5)) if fn == "rfftn" else x((3, 4, 5), "complex64")
        for p in ({}, {"axes": [0, 2]}, {"s": [4, 6], "axes": [1, 2]}, {"norm": "ortho"}, {"axes": [2, 0], "norm": "forward"}):
            g(fn, v, tol="linalg", **p)
    for fn in ("fft2", "ifft2", "rfft2", "irfft2"):
        v = x((2, 4, 5)) if fn == "rfft2" else x((2, 4, 5), "complex64")
        g(fn, v, tol="linalg")
        g(fn, v, s=[3, 6], tol="linalg")
        g(fn, v, axes=[0, 1], norm="ortho", tol="linalg")
    g("fftn", x((3, 4)), grad=False)
    g("fft", x((5,), "int32"), grad=False)
    g("fftn", x((2, 3, 2), "float64"), grad=False)
    for n in (1, 4, 7):
        g("fftfreq", n=n, grad=False)
        g("rfftfreq", n=n, d=0.25, grad=False)
    for fn in ("fftshift", "ifftshift"):
        g(fn, x((3, 4)), tol="exact")
        g(fn, x((3, 5)), axes=1, tol="exact")


def spd(n):
    a = x((n, n), tag="spd")
    return (a @ a.T + n * np.eye(n)).astype(F)


def linear(rec):
    g = Group(rec, "linear", "linalg", "linalg")
    a = x((3, 4))
    sq = (x((3, 3)) + 4 * np.eye(3)).astype(F)
    for o in (1, -1, 2, -2, "inf", "-inf", "nuc", "fro"):
        g("norm", a, ord=o)
        g("matrix_norm", x((2, 3, 4)), ord=o, keepdims=True)
    for o in (0, 1, 2, 3, 0.5, "inf", "-inf"):
        g("norm", x((5,)), ord=o, grad=o != 0)
        g("vector_norm", a, ord=o, axis=1, grad=o != 0)
    g("norm", x((2, 3, 4)))
    g("norm", x((2, 3, 4)), axis=[0, 2], ord=1, keepdims=True)
    g("norm", x((2, 3, 4)), axis=[2, 0], ord="inf")
    g("norm", x((3, 3), "complex64"), grad=False)
    for p in (None, 2, -2, 1, "inf", "fro"):
        g("cond", sq, p=p, grad=False)
    g("svdvals", x((2, 4, 3)))
    g("pinv", x((4, 3)))
    g("pinv", x((2, 3, 4)), grad=False)
    g("pinv", x((3, 3), "complex64"), grad=False)
    g("matrix_rank", np.outer(x((3,)), x((4,))).astype(F), grad=False)
    g("matrix_rank", x((2, 3, 3)), grad=False)
    for n in (0, 1, 2, 3, 5, -1, -3):
        g("matrix_power", sq, n=n)
    g("program.multi_dot", x((2, 5)), x((5, 3)), x((3, 4)), x((4,)))
    g("program.multi_dot", x((4,)), x((4, 3)), x((3, 5)))
    g("lstsq", x((5, 3)), x((5,), tag="b"), grad=False)
    g("lstsq", x((3, 5)), x((3, 2), tag="b"), grad=False)
    g("tensorinv", (x((4, 2, 2)) + np.eye(4).reshape(4, 2, 2) * 4).astype(F), ind=1)
    g("tensorsolve", (x((2, 2, 4)) + np.eye(4).reshape(2, 2, 4) * 4).astype(F), x((2, 2), tag="b"))
    for s in (0.01, 0.5, 3.0, 12.0):
        g("slinalg.expm", (sq * F(s / 5)).astype(F), tol=(3e-4, 3e-4))
    g("slinalg.expm", (x((2, 3, 3)) * F(0.3)).astype(F), grad=False)
    g("slinalg.expm", (x((3, 3), "float64")), grad=False)
    g("slinalg.block_diag", x((2, 3)), x((1, 1)), x((2,)))
    g("slinalg.toeplitz", x((4,)))
    g("slinalg.toeplitz", x((3,)), x((4,), tag="r"))
    g("slinalg.hankel", x((3,)))
    g("slinalg.hankel", x((3,)), x((4,), tag="r"))
    g("slinalg.circulant", x((4,)))
    g("slinalg.companion", x((4,)))
    g("slinalg.hilbert", n=4, grad=False)
    g("slinalg.dft", n=5, grad=False)
    g("program.cho_solve", spd(4), x((4, 2), tag="b"))
    g("program.cho_solve", spd(3), x((3,), tag="b"))
    g("program.lu_solve", sq, x((3, 2), tag="b"))
    g("program.lu_solve", sq, x((3,), tag="b"))
    g("slinalg.polar", sq, grad=False, tol=(1e-3, 1e-3))


def products(rec):
    g = Group(rec, "contractions", "jnp", "reduce")
    for fn in ("dot", "inner", "vdot", "outer", "kron"):
        g(fn, x((4,)), x((4,), tag="b"))
        g(fn, x((4,), "complex64"), x((4,), "complex64", "b"), grad=False)
    g("dot", x((2, 3)), x((4, 3, 5)))
    g("dot", x((2, 3)), Scalar(2.5))
    g("inner", x((2, 3)), x((4, 3)))
    g("kron", x((2, 3)), x((3,)))
    g("tensordot", x((2, 3, 4)), x((4, 3, 5)), axes=[[1, 2], [1, 0]])
    g("tensordot", x((2, 3)), x((4,)), axes=0)
    g("cross", x((2, 3)), x((2, 3), tag="b"))
    g("cross", x((2, 2)), x((2, 3), tag="b"))
    g("cross", x((4, 2)), x((4, 2), tag="b"))
    g("cross", x((3, 4)), x((3, 4), tag="b"), axisa=0, axisb=0, axisc=0)
    g("vecdot", x((2, 3)), x((3,)))
    g("vecdot", x((3, 2), "complex64"), x((3, 2), "complex64", "b"), axis=0, grad=False)
    g("matvec", x((2, 3, 4)), x((4,)))
    g("vecmat", x((2, 3)), x((3, 4)))
    l = Group(rec, "contractions", "lax", "reduce")
    l("batch_matmul", x((2, 3, 4)), x((2, 4, 5)))
    for p in ({"padding": "SAME"}, {"padding": "VALID"}, {"padding": [[1, 2], [0, 1]]}, {"padding": "SAME", "transpose_kernel": True},
              {"padding": "VALID", "rhs_dilation": [2, 1]}):
        kernel = (3, 2, 4, 3) if p.get("transpose_kernel") else (3, 2, 3, 4)
        l("conv_transpose", x((2, 5, 4, 3)), x(kernel, tag="k"), strides=[2, 3], **p)
    l("conv_transpose", x((2, 3, 5)), x((4, 3, 3), tag="k"), strides=[2], padding="SAME", dimension_numbers=["NCH", "OIH", "NCH"])
    l("conv_with_general_padding", x((1, 2, 5, 5)), x((3, 2, 2, 2), tag="k"), window_strides=[1, 2], padding=[[1, 0], [0, 1]],
      lhs_dilation=[2, 1], rhs_dilation=[1, 2])
    l("collapse", x((2, 3, 4)), start_dimension=1, stop_dimension=3, tol="exact")
    l("program.reduce_pairs", d((3, 5)), grad=False, tol="exact")
    l("program.reduce_window_product", x((3, 4)), grad=False)


def distributions(rec):
    def case(fn, k, *args, tol="linalg", wrt=None, **p):
        rec.case("distributions", "random." + fn, [key(k), *args], p, tol=tol, note=str(k))
        if wrt:
            rec.case("distributions", "random." + fn, [key(k), *args], p, "vjp", wrt, tol=tol, note=str(k))
    a = np.array([0.3, 1.0, 2.5, 40.0], F)
    for fn in ("gamma", "loggamma"):
        case(fn, 40, a, wrt=[1])
        case(fn, 41, F(1.7), shape=[2, 3])
        case(fn, 42, F(0.4), shape=[3], dtype="float64", tol=(1e-6, 1e-6))
    case("beta", 43, a, F(2), wrt=[1, 2])
    case("beta", 43, F(0.5), F(0.5), shape=[5])
    case("dirichlet", 44, x((2, 3), lo=0.5, hi=4), wrt=[1])
    case("dirichlet", 44, np.array([1, 2, 3], F), shape=[4])
    case("chisquare", 45, a)
    case("f", 46, a, F(5))
    case("t", 47, a)
    case("pareto", 48, a, shape=[2, 4])
    case("rayleigh", 49, a)
    case("lognormal", 50, a / 10, shape=[4], wrt=[1])
    case("wald", 51, a)
    case("geometric", 52, np.array([0.1, 0.5, 0.9], F), tol="exact")
    case("geometric", 52, F(0.3), shape=[6], tol="exact")
    case("weibull_min", 53, F(2), F(1.5), shape=[5])
    case("triangular", 54, F(-1), F(0.5), F(2), shape=[6])
    case("maxwell", 55, shape=[5])
    case("double_sided_maxwell", 56, F(1), F(2), shape=[4])
    case("generalized_normal", 57, F(1.5), shape=[5])
    case("ball", 58, d=3, shape=[4])
    case("ball", 58, d=2, p=1.0, shape=[3])
    case("orthogonal", 59, n=3)
    case("orthogonal", 59, n=2, shape=[2], m=4)
    case("multivariate_normal", 60, x((3,)), spd(3), wrt=[1, 2])
    case("multivariate_normal", 60, x((2, 3)), spd(3), shape=[4, 2])
    case("poisson", 61, np.array([0, 0.5, 3, 9.9, 12, 80, 4000], F), tol="exact")
    case("poisson", 62, F(20), shape=[8], tol="exact")
    case("binomial", 63, F(10), np.array([0.1, 0.5, 0.8], F), tol="exact")
    case("binomial", 64, F(200), np.array([0.05, 0.4, 0.97], F), shape=[2, 3], tol="exact")
    case("multinomial", 65, F(20), np.array([0.2, 0.5, 0.3], F), tol="exact")
    case("choice", 66, x((5, 2)), shape=[3], tol="exact")
    case("choice", 66, x((5, 2)), shape=[3], replace=False, tol="exact")
    case("choice", 67, x((2, 5)), shape=[2, 2], axis=1, tol="exact")
    p = np.array([0.1, 0.2, 0.3, 0.15, 0.25], F)
    case("choice", 68, x((5,)), p, shape=[6], tol="exact")
    case("choice", 69, x((5, 2)), p, shape=[3], replace=False, tol="exact")


def layers(rec):
    g = Group(rec, "layers", "nn", "trans")
    for fn in ("identity", "hard_swish", "sparse_plus", "sparse_sigmoid"):
        g(fn, x((6,)))
    g("log1mexp", x((6,), lo=0.05, hi=4))
    g("logmeanexp", x((3, 4)), axis=1)
    g("logmeanexp", x((3, 4)), keepdims=True)
    q, k, v = x((2, 3, 4, 5)), x((2, 6, 4, 5), tag="k"), x((2, 6, 4, 5), tag="v")
    g("dot_product_attention", q, k, v, tol="reduce")
    g("dot_product_attention", q, k, v, is_causal=True, tol="reduce")
    g("dot_product_attention", q, k, v, scale=0.3, tol="reduce")
    g("dot_product_attention", q, k[:, :, :2].copy(), v[:, :, :2].copy(), tol="reduce")
    g("dot_product_attention", q[0].copy(), k[0].copy(), v[0].copy(), tol="reduce")
    g("dot_product_attention", q, k, v, x((2, 4, 3, 6), tag="bias"), tol="reduce")
    g("dot_product_attention", q, k, v, x((2, 4, 3, 6), tag="bias"), x((2, 1, 3, 6), "bool"), tol="reduce")
