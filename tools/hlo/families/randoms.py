# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from record import rand

R = jax.random


def cases(r):
    key = R.key(42)
    for n, f in (
        ("uniform", lambda k: (R.uniform(k, (5,)), R.uniform(k, (3, 2), minval=-1, maxval=3), R.uniform(k, (4,), "bfloat16"), R.uniform(k, (4,), "float16"))),
        ("normal", lambda k: (R.normal(k, (7,)), R.normal(k, (3,), "bfloat16"), R.normal(k, (3,), "complex64"))),
        ("bits", lambda k: (R.bits(k, (5,)), R.bits(k, (4,), "uint8"), R.bits(k, (3, 3), "uint16"))),
        ("randint", lambda k: (R.randint(k, (6,), 0, 10), R.randint(k, (4,), -5, 5, "int8"), R.randint(k, (3,), 0, 200, "uint8"))),
        ("split", lambda k: (R.key_data(R.split(k, 3)), R.key_data(R.fold_in(k, 7)), R.uniform(R.split(k)[1], (2,)))),
        ("bernoulli", lambda k: (R.bernoulli(k, 0.3, (10,)), R.rademacher(k, (5,)))),
        ("permutation", lambda k: (R.permutation(k, 9), R.permutation(k, jnp.arange(12.).reshape(4, 3)), R.choice(k, 10, (4,), replace=False), R.choice(k, 10, (4,)), R.choice(k, 3, (5,), p=jnp.array([0.2, 0.5, 0.3])))),
        ("categorical", lambda k: (R.categorical(k, jnp.arange(5.), shape=(6,)), R.categorical(k, jnp.ones((3, 4))))),
        ("exponential", lambda k: (R.exponential(k, (5,)), R.laplace(k, (4,)), R.gumbel(k, (4,)), R.cauchy(k, (4,)), R.logistic(k, (4,)), R.rayleigh(k, 1.5, (3,)), R.weibull_min(k, 2., 3., (4,)))),
        ("truncated", lambda k: R.truncated_normal(k, -1., 2., (6,))),
        ("gamma", lambda k: (R.gamma(k, 2.5, (4,)), R.gamma(k, jnp.array([0.3, 1.0, 7.0])), R.loggamma(k, 0.1, (3,)))),
        ("beta", lambda k: (R.beta(k, 2., 3., (4,)), R.dirichlet(k, jnp.ones(3), (2,)), R.t(k, 4., (3,)), R.chisquare(k, 3., (3,)), R.f(k, 3., 4., (2,)))),
        ("poisson", lambda k: (R.poisson(k, 3.0, (6,)), R.poisson(k, 30.0, (4,)))),
        ("binomial", lambda k: (R.binomial(k, 10., 0.3, (4,)), R.geometric(k, 0.3, (4,)), R.multinomial(k, 10, jnp.array([.2, .3, .5])))),
        ("multivariate", lambda k: R.multivariate_normal(k, jnp.zeros(3), jnp.eye(3) + 0.5)),
        ("orthogonal", lambda k: (R.orthogonal(k, 4), R.ball(k, 3, shape=(2,)))),
        ("double_sided", lambda k: (R.double_sided_maxwell(k, 0., 1., (3,)), R.maxwell(k, (3,)), R.pareto(k, 2., (3,)), R.lognormal(k, 0.5, (3,)), R.triangular(k, 0., .3, 1., (3,)), R.wald(k, 1., (3,)))),
    ):
        r.case(n, f, key, tol=2e-4)
    r.case("seed", lambda s: (R.key_data(R.key(s)), R.uniform(R.PRNGKey(s), (3,))), np.int32(123456))
    r.case("seed_u32", lambda s: R.normal(R.PRNGKey(s), (3,)), np.uint32(7), tol=1e-5)
    r.case("vmapped", jax.vmap(lambda k: R.normal(k, (3,))), R.split(key, 4), tol=1e-5)
    r.case("dropout", lambda k, x: jnp.where(R.bernoulli(k, 0.8, x.shape), x / 0.8, 0), key, rand((4, 5)))
    r.case("scan_keys", lambda k: lax.scan(lambda c, _: (R.split(c)[0], R.uniform(c)), k, None, length=4)[1], key)
    r.case("f64", lambda k: (R.uniform(k, (3,), "float64"), R.normal(k, (3,), "float64"), R.bits(k, (3,), "uint64"), R.randint(k, (3,), 0, 2**40, "int64")), key, x64=True, tol=1e-9)
    for a in ("default", "philox", "three_fry"):
        alg = {"default": lax.RandomAlgorithm.RNG_DEFAULT, "philox": lax.RandomAlgorithm.RNG_PHILOX, "three_fry": lax.RandomAlgorithm.RNG_THREE_FRY}[a]
        for d in ("uint8", "uint16", "uint32"):
            for shape in ((), (5,), (3, 7), (4, 6)):
                r.case(f"rbg_{a}_{d}_{'x'.join(map(str, shape)) or 'scalar'}", lambda k: lax.rng_bit_generator(k, shape, d, algorithm=alg), np.array([1, 2, 3, 4000000000], np.uint32))
        r.case(f"rbg_{a}_u64", lambda k: (lax.rng_bit_generator(k, (3, 5), "uint64", algorithm=alg), lax.rng_bit_generator(k, (), "uint64", algorithm=alg)), np.array([1, 2**63 + 5], np.uint64), x64=True)
    for impl in ("rbg", "unsafe_rbg"):
        k = R.key(3, impl=impl)
        r.case(f"impl_{impl}", lambda k: (R.normal(k, (5,)), R.uniform(R.split(k)[0], (3,)), R.key_data(R.fold_in(k, 3)), R.randint(k, (3,), 0, 9)), k, tol=1e-5)
