# SPDX-License-Identifier: Apache-2.0
"""NumPyro: logistic regression by NUTS with four chains in one batch, and by variational inference."""
import jax

jax.config.update("jax_enable_x64", True)  # trajectories would part by roundings otherwise

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoDiagonalNormal

from _results import store

numbers = np.random.default_rng(0)
x = numbers.normal(size=(64, 3))
y = numbers.random(64) < 1 / (1 + np.exp(-(x @ [1.0, -2.0, 0.5])))


def model(x, y=None):
    w = numpyro.sample("w", dist.Normal(jnp.zeros(3), 2).to_event(1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=x @ w + b), obs=y)


mcmc = MCMC(NUTS(model), num_warmup=60, num_samples=60, num_chains=4, chain_method="vectorized", progress_bar=False)
mcmc.run(jax.random.key(0), x, y.astype(int))
samples = mcmc.get_samples()
svi = SVI(model, AutoDiagonalNormal(model), numpyro.optim.Adam(0.05), Trace_ELBO())
losses = svi.run(jax.random.key(1), 100, x, y.astype(int), progress_bar=False).losses
store(w=samples["w"], b=samples["b"], losses=losses)
