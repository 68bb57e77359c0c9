# SPDX-License-Identifier: Apache-2.0
"""Tessera for JAX: unmodified JAX programs on as many virtual devices as one asks for.

    JAX_PLATFORMS=tessera python program.py     # as a platform of its own
    TESSERA_JAX=cpu python program.py           # in the place of JAX's CPU backend
    import tessera.jax                          # the same, from the program
"""
from .explain import Collective, CommPlan, comm_budget, comm_plan, show
from .tracing import trace

__all__ = ["Collective", "CommPlan", "comm_budget", "comm_plan", "show", "trace"]
