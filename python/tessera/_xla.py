# SPDX-License-Identifier: Apache-2.0
"""JAX's own CPU client beside Tessera's, in one process: compiles what JAX lowered once for XLA, too."""
import copy
import functools

import jax
import numpy as np


@functools.cache
def client(devices: int):
    """XLA's CPU client with so many devices, kept for later calls. JAX does not know it as a backend: what runs on it
    names its devices."""
    from jaxlib import xla_client

    return xla_client.make_cpu_client(asynchronous=True, num_devices=devices)


class Twin:
    """Gives to each of JAX's CPU devices the device of XLA's client with the same id, in all that JAX makes of them."""

    def __init__(self):
        ours = jax.devices("cpu")
        self.client = client(max(d.id for d in ours) + 1)
        self._devices = {d.id: d for d in self.client.devices()}

    def device(self, d):
        return self._devices[d.id]

    def sharding(self, s):
        """The sharding of the same blocks over XLA's devices; shardings that name no devices stay as they are."""
        from jax._src import sharding_impls

        if isinstance(s, jax.sharding.NamedSharding):
            return jax.sharding.NamedSharding(self.mesh(s.mesh), s.spec, memory_kind=s.memory_kind)
        if isinstance(s, jax.sharding.SingleDeviceSharding):
            return jax.sharding.SingleDeviceSharding(self.device(s._device), memory_kind=s.memory_kind)
        if isinstance(s, sharding_impls.GSPMDSharding):
            return sharding_impls.GSPMDSharding(self.devices(s._device_assignment), s._hlo_sharding,
                                                memory_kind=s.memory_kind)
        if isinstance(s, jax.sharding.Sharding):
            raise TypeError(f"tessera.jax.check: sharding {s!r}; expected a NamedSharding or that of one device "
                            "(jax.device_put the argument with a NamedSharding)")
        return s

    def mesh(self, mesh):
        if not isinstance(mesh, jax.sharding.Mesh) or mesh.empty:  # abstract meshes have no devices
            return mesh
        devices = np.vectorize(self.device, otypes=[object])(mesh.devices)
        return jax.sharding.Mesh(devices, mesh.axis_names, axis_types=mesh.axis_types)

    def devices(self, several):
        return tuple(self.device(d) for d in several)

    def argument(self, x):
        """An argument of a program as XLA's client takes it: arrays that were put somewhere go to the devices with the
        same ids, others to where the program wants them. Always a copy, whatever the program donates."""
        if isinstance(x, jax.Ref):
            raise TypeError(f"tessera.jax.check: {x!r} is a reference, which a copy for XLA would not stand for; pass its "
                            "value, x[...], and make the reference in the function")
        if not isinstance(x, jax.Array):
            return x
        if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
            data = np.asarray(jax.random.key_data(x))
            if x._committed:
                logical = self.sharding(x.sharding)
                if isinstance(logical, jax.sharding.NamedSharding):
                    data = jax.device_put(data, logical)
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(x))
        if not x._committed:
            return np.asarray(x).copy()
        return jax.device_put(np.asarray(x), self.sharding(x.sharding))

    def _mapped(self, x):
        from jaxlib import xla_client

        if isinstance(x, xla_client.Client):
            return self.client
        if isinstance(x, xla_client.DeviceList):
            return xla_client.DeviceList(self.devices(x))
        if isinstance(x, jax.sharding.Mesh):
            return self.mesh(x)
        if isinstance(x, jax.sharding.Sharding):
            return self.sharding(x)
        if type(x) in (list, tuple):
            return type(x)(self._mapped(e) for e in x)
        return x

    def compile(self, lowered: jax.stages.Lowered) -> jax.stages.Compiled:
        """The program that JAX lowered, compiled by XLA for its own devices."""
        lowering = copy.copy(lowered._lowering)
        lowering._executable = None
        lowering.compile_args = {k: self._mapped(v) for k, v in lowering.compile_args.items()}
        if getattr(lowering, "_device_list", None) is not None:  # in compile_args before JAX 0.10
            lowering._device_list = self._mapped(lowering._device_list)
        twin = copy.copy(lowered)
        twin._lowering = lowering
        return twin.compile()
