# SPDX-License-Identifier: Apache-2.0
"""Diffrax: a batch of Lotka-Volterra systems with adaptive steps, its gradient, a stiff one and a stochastic one."""
import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from _results import store

jax.config.update("jax_enable_x64", True)
mesh = jax.make_mesh((8,), ("batch",), axis_types=(AxisType.Auto,))


def prey(t, y, args):
    a, b, c, d = args
    return jnp.stack([a * y[0] - b * y[0] * y[1], -c * y[1] + d * y[0] * y[1]])


@jax.jit
def solve(y0, args):
    def one(y0):
        return diffrax.diffeqsolve(diffrax.ODETerm(prey), diffrax.Tsit5(), 0, 5, 0.1, y0, args,
                                   saveat=diffrax.SaveAt(ts=jnp.linspace(0, 5, 6)),
                                   stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-8)).ys
    return jax.vmap(one)(y0)


y0 = jax.device_put(np.random.default_rng(0).uniform(1, 3, size=(16, 2)), NamedSharding(mesh, P("batch")))
args = jnp.array([1.1, 0.4, 0.4, 0.1])
gradient = jax.jit(jax.grad(lambda a: jnp.mean(solve(y0, a)[:, -1] ** 2)))(args)


def robertson(t, y, args):
    a, b, c = y
    first, second, third = 0.04 * a, 3e7 * b * b, 1e4 * b * c
    return jnp.stack([third - first, first - second - third, second])


stiff = jax.jit(lambda y: diffrax.diffeqsolve(
    diffrax.ODETerm(robertson), diffrax.Kvaerno5(), 0.0, 100.0, 2e-4, y, max_steps=None,
    stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-8)).ys)(jnp.array([1.0, 0.0, 0.0]))
path = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-3, shape=(), key=jax.random.key(0))
noise = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, _: -y), diffrax.ControlTerm(lambda t, y, _: 0.3, path))
stochastic = diffrax.diffeqsolve(noise, diffrax.Euler(), 0.0, 1.0, 0.05, 1.0, saveat=diffrax.SaveAt(steps=True)).ys
store(solved=solve(y0, args), gradient=gradient, stiff=stiff, stochastic=stochastic[:20])
