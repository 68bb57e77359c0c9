# SPDX-License-Identifier: Apache-2.0
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from record import rand


def cases(r):
    x = rand((4,))
    r.case("while", lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 1.5), (0, x)), x)
    r.case("while_data", lambda x: lax.while_loop(lambda c: jnp.sum(c) < 100, lambda c: c * 2 + 1, jnp.abs(x)), x)
    r.case("while_consts", lambda x, y: lax.while_loop(lambda c: jnp.sum(c) < jnp.sum(y) + 50, lambda c: c + jnp.abs(y) + 1, x), x, rand((4,), seed=1))
    r.case("while_batched", jax.vmap(lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + c[0]), (0, 0))), np.array([3, 0, 7], np.int32))
    r.case("fori", lambda x: (lax.fori_loop(0, 5, lambda i, v: v + i, x), lax.fori_loop(2, 9, lambda i, v: v * 1.1 + i, x)), x)
    r.case("fori_dynamic", lambda x, n: lax.fori_loop(0, n, lambda i, v: v.at[i % 4].add(i), x), x, np.int32(6))
    r.case("nested", lambda x: lax.fori_loop(0, 3, lambda i, v: lax.fori_loop(0, i + 1, lambda j, w: w + i * j, v), x), x)
    r.case("scan", lambda x: lax.scan(lambda c, a: (c + a, c * a), 0.0, x), x)
    r.case("scan_reverse", lambda x: lax.scan(lambda c, a: (c * 0.5 + a, (c, a)), jnp.ones(3), x, reverse=True), rand((5, 3)))
    r.case("scan_unroll", lambda x: lax.scan(lambda c, a: (c + a, c), 0.0, x, unroll=2), rand((7,)))
    r.case("scan_length", lambda x: lax.scan(lambda c, _: (c * 1.1, None), x, None, length=5), x)
    r.case("scan_rnn", lambda w, xs: lax.scan(lambda h, a: (jnp.tanh(h @ w + a),) * 2, jnp.zeros(4), xs), rand((4, 4)), rand((6, 4)))
    r.case("scan_grad", jax.grad(lambda w, xs: jnp.sum(lax.scan(lambda h, a: (jnp.tanh(h @ w + a),) * 2, jnp.zeros(4), xs)[1] ** 2)), rand((4, 4)), rand((6, 4)), tol=1e-4)
    r.case("scan_int", lambda x: lax.scan(lambda c, a: (c + a, c > 3), 0, x), np.arange(5, dtype=np.int32))
    r.case("map", lambda x: (lax.map(lambda a: jnp.sin(a).sum(), x), lax.map(lambda a: a * 2, x, batch_size=2)), rand((5, 3)))
    r.case("cond", lambda p, x: lax.cond(p > 0, lambda v: v * 2, lambda v: v - 1, x), np.float32(1), x)
    r.case("cond_closure", lambda p, x, y: lax.cond(p > 0, lambda: x + y, lambda: x * y), np.float32(-1), x, rand((4,), seed=1))
    r.case("cond_multi", lambda p, x: lax.cond(p, lambda v: (v, v.sum(), True), lambda v: (v * 0, v[0], False), x), np.bool_(True), x)
    for i in (-3, 0, 1, 2, 9):
        r.case(f"switch_{i}".replace("-", "m"), lambda i, x: lax.switch(i, [lambda v: v, lambda v: v * 2, lambda v: -v], x), np.int32(i), x)
    r.case("cond_grad", jax.grad(lambda x, p: jnp.sum(lax.cond(p > 0, jnp.sin, jnp.cos, x))), x, np.float32(1))
    r.case("cond_vmap", jax.vmap(lambda p, x: lax.cond(p > 0, jnp.sin, jnp.cos, x)), rand((4,)), x)
    r.case("switch_vmap", jax.vmap(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x)), np.array([0, 2, 1, 1], np.int32), x)
    r.case("cond_in_scan", lambda x: lax.scan(lambda c, a: lax.cond(a > 0, lambda: (c + a, c), lambda: (c - a, a)), 0.0, x), x)
    r.case("while_in_cond", lambda x: lax.cond(x[0] > 0, lambda v: lax.fori_loop(0, 3, lambda i, w: w * 2, v), lambda v: lax.fori_loop(0, 2, lambda i, w: w + 1, v), x), x)
    r.case("checkpoint", jax.grad(lambda x: jnp.sum(jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)))(x))), x)
    r.case("remat_scan", jax.grad(lambda x: jnp.sum(lax.scan(jax.checkpoint(lambda c, a: (jnp.sin(c * a), c)), x, jnp.arange(3.0))[0])), x)
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * 2 * x,))
    r.case("custom_vjp", lambda x: (f(x), jax.grad(lambda v: f(v).sum())(x)), x)
    @jax.custom_jvp
    def g(x):
        return jnp.exp(x)
    g.defjvp(lambda p, t: (g(p[0]), t[0] * 3))
    r.case("custom_jvp", lambda x: (g(x), jax.jvp(g, (x,), (x,))), x)
    r.case("nested_jit", lambda x: jax.jit(lambda v: jax.jit(jnp.sin)(v) + jax.jit(jnp.sin)(v * 2))(x), x)
    r.case("inner_twice", lambda x: jax.nn.relu(x) + jax.nn.relu(-x) + jnp.clip(x, 0, 1) + jnp.where(x > 0, x, 0), x)
    r.case("hessian", jax.hessian(lambda x: jnp.sum(jnp.sin(x) * x[::-1])), x, tol=1e-4)
    r.case("jacobians", lambda x: (jax.jacfwd(jnp.cumsum)(x), jax.jacrev(lambda v: v[:2] * v[2:])(x)), x)
    r.case("linearize", lambda x: jax.linearize(lambda v: jnp.sin(v) * v, x)[1](x), x)
    r.case("vjp", lambda x: jax.vjp(lambda v: (jnp.sin(v), v ** 2), x)[1]((x, x)), x)
    r.case("custom_root", lambda x: lax.custom_root(lambda y: y ** 3 - x, x, lambda f, y: lax.while_loop(lambda v: jnp.abs(f(v)) > 1e-3, lambda v: v - f(v) / (3 * v ** 2), y), lambda g, y: y / g(1.0)), np.float32(2.0), tol=1e-3)
    r.case("odeint", lambda y: jax.experimental.ode.odeint(lambda y, t: -y, y, jnp.linspace(0., 1., 3)) if hasattr(jax.experimental, "ode") else y, x, tol=1e-3)
    r.case("token", lambda x: lax.fori_loop(0, 2, lambda i, v: lax.optimization_barrier(v) + 1, x), x)
    r.case("bfgs", lambda x: jax.scipy.optimize.minimize(lambda v: jnp.sum((v - 1) ** 2), x, method="BFGS").x, x, tol=1e-3)
    r.case("newton", lambda x: lax.while_loop(lambda c: jnp.abs(c[1]) > 1e-4, lambda c: (c[0] - c[1] / (2 * c[0]), (c[0] - c[1] / (2 * c[0])) ** 2 - x), (x, x ** 2 - x))[0], np.float32(2.0), tol=1e-4)
    r.case("mandelbrot", lambda c: lax.fori_loop(0, 8, lambda i, z: jnp.where(jnp.abs(z) < 2, z * z + c, z), jnp.zeros_like(c)), rand((5,), "complex64", low=-1., high=1.), tol=1e-3)
