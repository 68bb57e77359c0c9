# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from record import rand

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-30, -1e30, np.inf, -np.inf, np.nan], np.float32)
UNARY = ["abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i0e", "bessel_i1e", "cbrt", "ceil", "cos",
         "cosh", "digamma", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "is_finite", "lgamma", "log",
         "log1p", "logistic", "neg", "reciprocal", "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan",
         "tanh"]
COMPLEX = ["abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "conj", "cos", "cosh", "exp", "expm1", "imag", "log",
           "log1p", "logistic", "neg", "real", "rsqrt", "sign", "sin", "sinh", "sqrt", "tan", "tanh"]
BINARY = ["add", "atan2", "div", "max", "min", "mul", "nextafter", "pow", "rem", "sub", "eq", "ne", "lt", "le", "gt", "ge"]
INT_UNARY = ["abs", "bitwise_not", "clz", "neg", "population_count", "sign"]
INT_BINARY = ["add", "bitwise_and", "bitwise_or", "bitwise_xor", "div", "max", "min", "mul", "rem", "shift_left",
              "shift_right_arithmetic", "shift_right_logical", "sub", "eq", "lt", "ge", "mulhi"]


def unary_case(r, group, names, x, tol=None, x64=False):
    def f(x):
        return [getattr(lax, n)(x) for n in names]
    r.case(group, f, x, tol=tol, x64=x64)


def cases(r):
    for n in UNARY:
        f = getattr(lax, n)
        tol = 3e-5 if n in ("digamma", "lgamma", "erf_inv", "tan", "bessel_i0e", "bessel_i1e") else None
        r.case(f"{n}_f32", f, np.concatenate([SPECIAL, rand((20,), seed=n)]), tol=tol)
    for n in ("exp", "log1p", "tanh", "erf", "sqrt", "floor", "round", "sign", "abs"):
        for d in ("float16", "bfloat16"):
            r.case(f"{n}_{d}", getattr(lax, n), np.concatenate([SPECIAL, rand((20,), seed=n)]).astype(jnp.dtype(d)))
        r.case(f"{n}_f64", getattr(lax, n), rand((20,), "float64", n), x64=True)
    unary_case(r, "all_f64", [n for n in UNARY if n not in ("exp",)], rand((9,), "float64", 3, 0.1, 0.9), 1e-9, True)
    for n in COMPLEX:
        r.case(f"{n}_c64", getattr(lax, n), rand((7,), "complex64", n), tol=5e-5)
    unary_case(r, "all_c128", COMPLEX, rand((5,), "complex128"), 1e-9, True)
    for n in BINARY:
        x, y = np.concatenate([SPECIAL, SPECIAL]), np.concatenate([SPECIAL, SPECIAL[::-1]])
        if n == "pow":
            x, y = np.abs(rand((24,))), rand((24,), seed=1)
        r.case(f"{n}_f32", getattr(lax, n), x, y)
        r.case(f"{n}_bf16", getattr(lax, n), x.astype(jnp.bfloat16), y.astype(jnp.bfloat16))
    for d in ("int8", "int16", "int32", "uint8", "uint16", "uint32"):
        lo = np.iinfo(d)
        x = np.concatenate([rand((20,), d), np.array([lo.min, lo.max, 0, 1], d)])
        y = np.concatenate([rand((20,), d, 1), np.array([1, lo.max, 0, 3], d)])
        s = np.abs(rand((24,), "int32")).astype(d)

        def f(x, y, s):
            un = [getattr(lax, n)(x) for n in INT_UNARY if not (n == "abs" and d[0] == "u")]
            bi = [getattr(lax, n)(x, s if "shift" in n else y) for n in INT_BINARY]
            return un, bi, x ** 3, jnp.clip(x, 1, 5), lax.integer_pow(x, 5)
        r.case(f"all_{d}", f, x, y, s)

    def f64bit(x, y):
        return [getattr(lax, n)(x, y) for n in INT_BINARY], lax.clz(x), lax.population_count(y)
    big = np.array([3, -5, 2**62, -2**63, 2**40 + 7], np.int64)
    r.case("all_int64", f64bit, big, np.array([1, 2, 3, 4, 5], np.int64), x64=True)
    r.case("all_uint64", f64bit, big.astype(np.uint64), np.array([1, 2, 3, 4, 5], np.uint64), x64=True)
    b = rand((9,), "bool")
    r.case("bools", lambda x, y: (x & y, x | y, x ^ y, ~x, x == y, x != y, x < y, lax.max(x, y), lax.min(x, y)), b, b[::-1])
    for a in ("float32", "int32", "uint8", "bool", "float16", "bfloat16", "complex64", "int8"):
        x = rand((9,), a, low=0.0, high=7.0)
        r.case(f"convert_{a}", lambda x: [lax.convert_element_type(x, t) for t in
               ("float32", "int32", "uint8", "bool", "float16", "bfloat16", "complex64", "int8", "uint32", "int16")], x)
    r.case("convert_special", lambda x: [x.astype(t) for t in ("int32", "uint8", "int8", "uint32", "bool", "float16",
                                                              "bfloat16")], SPECIAL)
    for a, t in (("float32", "int32"), ("float32", "uint32"), ("float16", "int16"), ("float32", "uint8"), ("uint8", None)):
        x = rand((4, 4), a)
        r.case(f"bitcast_{a}_{t}", lambda x: lax.bitcast_convert_type(x, t or "uint32"), x)
    for e, m in ((5, 10), (8, 7), (4, 3), (5, 2), (8, 23)):
        r.case(f"reduce_precision_{e}_{m}", lambda x: lax.reduce_precision(x, e, m),
               np.concatenate([SPECIAL, rand((30,), low=-1e-3, high=1e-3), rand((30,), low=-500., high=500.)]))
    r.case("clamp", lambda x: (lax.clamp(-1.0, x, 1.0), lax.clamp(x - 1, x * 2, x + 1)), rand((3, 4)))
    r.case("select", lambda p, x, y: (jnp.where(p, x, y), lax.select_n(p.astype("int32"), x, y, )), rand((3, 4), "bool"),
           rand((3, 4)), rand((3, 4), seed=1))
    r.case("select_n3", lambda i, x: lax.select_n(i, x, x * 2, x * 3), np.array([0, 1, 2, 1], np.int32), rand((4,)))
    r.case("special_functions", lambda a, x: (lax.igamma(a, x), lax.igammac(a, x), lax.betainc(a, x, x * 0.1),
           lax.polygamma(jnp.round(a), x), lax.zeta(a + 1.5, x), lax.random_gamma_grad(a, x), lax.igamma_grad_a(a, x)),
           rand((7,), low=0.5, high=4.0), rand((7,), seed=1, low=0.3, high=5.0), tol=2e-4)
    r.case("complex_parts", lambda x, y: (lax.complex(x, y), lax.complex(x, y) * lax.complex(y, x),
           lax.complex(x, y) / lax.complex(y, x), lax.complex(x, y) ** 2.5), rand((6,)), rand((6,), seed=1))
    r.case("totalorder", lambda x, y: (lax.lt_to_p.bind(x, y), lax.le_to_p.bind(x, y), lax.eq_to_p.bind(x, y)), SPECIAL,
           SPECIAL[::-1].copy())
    for d in ("int4", "uint4", "int2", "uint2"):
        x, y = rand((8,), d), rand((8,), d, 1)
        r.case(f"narrow_{d}", lambda x, y: (x + y, x * y, x - y, lax.max(x, y), x < y, x & y, x.astype("int32"),
               (x.astype("float32") * 3).astype(d), x.astype("int8") + y.astype("int8")), x, y)
    for d in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float8_e3m4",
              "float8_e4m3", "float8_e8m0fnu", "float4_e2m1fn"):
        x = np.concatenate([rand((20,), low=-3., high=3.), rand((10,), low=-400., high=400.), [0.01, -0.002, 1e9, np.nan]])
        x = x.astype(np.float32)
        r.case(f"narrow_{d}", lambda x: (x.astype(d), x.astype(d).astype("float32") * 2, x.astype(d).astype("bfloat16")), x)
        y = np.abs(rand((8,))) + 0.5
        r.case(f"narrow_math_{d}", lambda x: (x.astype(d) + x.astype(d), jnp.sin(x.astype(d)), x.astype(d) < 1), y)
        r.case(f"narrow_arg_{d}", lambda x: (x.astype("float32"), x, lax.bitcast_convert_type(x, "uint8")), y.astype(jnp.dtype(d)))
