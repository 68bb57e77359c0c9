# SPDX-License-Identifier: Apache-2.0
"""orbax_checkpoint.py RESULTS save|restore FOLDER: a tree of sharded arrays, over however many devices there are."""
import sys

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from _results import store

what, folder = sys.argv[2:]
devices = len(jax.devices())
mesh = jax.make_mesh((devices // 4, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
numbers = np.random.default_rng(0)
values = {"w": numbers.normal(size=(64, 32)).astype(np.float32), "step": np.int32(7),
          "half": numbers.normal(size=(16, 64)).astype(ml_dtypes.bfloat16), "whole": np.arange(5, dtype=np.int32)}
specs = {"w": P("x", "y"), "step": P(), "half": P(None, ("x", "y")), "whole": P()}
shardings = {k: NamedSharding(mesh, s) for k, s in specs.items()}
with ocp.StandardCheckpointer() as checkpointer:
    if what == "save":
        tree = jax.device_put(values, shardings)
        checkpointer.save(folder, tree)
        checkpointer.wait_until_finished()
    else:
        wanted = {k: jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=shardings[k]) for k, v in values.items()}
        tree = checkpointer.restore(folder, wanted)
        assert all(tree[k].sharding == s and tree[k].dtype == values[k].dtype for k, s in shardings.items())
        np.testing.assert_array_equal(np.asarray(tree["w"]), values["w"])
store(total=jnp.sum(tree["w"]), devices=devices, **{k: np.asarray(v).astype(np.float64) for k, v in tree.items()})
