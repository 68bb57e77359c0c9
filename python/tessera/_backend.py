# SPDX-License-Identifier: Apache-2.0
"""Registers Tessera with JAX: under its own name, and in the place of JAX's CPU backend."""
import contextlib
import os
import re

from . import _ffi_targets, _host_callbacks, _inspect_sharding, _library, _lowerings

_NAME = "tessera"
_c_api = None


def _flag_devices() -> int | None:
    found = re.findall(r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return int(found[-1]) if found else None


def device_count() -> int:
    """Devices that the next client gets: TESSERA_CPU_DEVICES, else JAX's option jax_num_cpu_devices, else XLA's flag
    xla_force_host_platform_device_count, else one. Raises `ValueError` for a number that is none."""
    from jax._src import xla_bridge

    named = os.environ.get("TESSERA_CPU_DEVICES")
    if named is not None:
        if not named.isdigit() or int(named) < 1:
            raise ValueError(f"TESSERA_CPU_DEVICES = {named!r}; expected a number of devices, 1 or more")
        return int(named)
    configured = xla_bridge.num_cpu_devices.value
    if configured is not None and configured > 0:
        return configured
    return _flag_devices() or 1


def load():
    """Loads the plugin, once. Returns its C API for JAX."""
    global _c_api
    if _c_api is None:
        import jax  # first, for its version to be checked
        from jaxlib import xla_client

        check_version(jax.__version__)
        _c_api = xla_client.load_pjrt_plugin_dynamically(_NAME, _library.path())
    return _c_api


OLDEST = (0, 9, 1)  # jaxlib 0.9.0 does not ask plugins for the shardings of results
NEWEST_TRIED = "0.12.0"


def check_version(version: str) -> None:
    """Raises `ImportError` for a JAX that is older than what the plugin was tried with."""
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:3])
    if numbers < OLDEST:
        raise ImportError(f"tessera: JAX {version} is too old; expected {'.'.join(map(str, OLDEST))} or newer "
                          "(pip install --upgrade jax jaxlib)")


@contextlib.contextmanager
def known_jax():
    """Inside it, what a JAX or jaxlib lacks of those that the package was tried with is an `ImportError` that says so."""
    try:
        yield
    except (AttributeError, ModuleNotFoundError, TypeError) as error:
        import jax
        import jaxlib

        raise ImportError(f"tessera: JAX {jax.__version__} with jaxlib {jaxlib.__version__} is not what this version was "
                          f"made for, which was tried with {'.'.join(map(str, OLDEST))} to {NEWEST_TRIED}: {error} (install "
                          "one of those, or a newer tessera-jax)") from error


def client(platform: str = _NAME, devices: int | None = None):
    """A new client with so many devices; `device_count()` by default."""
    from jaxlib import xla_client

    load()
    if not xla_client.pjrt_plugin_initialized(_NAME):
        xla_client.initialize_pjrt_plugin(_NAME)
    options = {"num_devices": device_count() if devices is None else devices, "platform_name": platform}
    return xla_client.make_c_api_client(_NAME, options, None)


def register() -> None:
    """Makes JAX_PLATFORMS=tessera work."""
    from jax._src import xla_bridge
    from jaxlib import xla_client

    if _NAME in xla_bridge._backend_factories:
        return
    with known_jax():
        c_api = load()
        nonexperimental = getattr(xla_bridge, "_nonexperimental_plugins", None)
        if isinstance(nonexperimental, set):
            nonexperimental.add(_NAME)

        def topology(topology_name="", **options):
            return xla_client.make_c_api_device_topology(c_api, topology_name, **options)

        # Below JAX's own CPU backend: whoever only installs the package keeps what they had.
        xla_bridge.register_backend_factory(_NAME, client, priority=-1, fail_quietly=False, make_topology=topology,
                                            c_api=c_api)


def replace_cpu() -> None:
    """Puts Tessera in the place of JAX's CPU backend, with the lowering rules that JAX has for CPUs. Raises
    `RuntimeError` where JAX has made its backends already."""
    from jax._src import xla_bridge

    if xla_bridge._backends:
        if any("Tessera" in b.platform_version for b in xla_bridge._backends.values() if b.platform == "cpu"):
            return
        raise RuntimeError("tessera: JAX has started its backends already; import tessera.jax before the first array, "
                           "or set TESSERA_JAX=cpu in the environment")
    with known_jax():
        c_api = load()
        _host_callbacks.install()
        _lowerings.install()
        _inspect_sharding.install()
        _ffi_targets.install()
        xla_bridge._backend_factories["cpu"] = xla_bridge.BackendRegistration(
            lambda: client("cpu"), priority=0, fail_quietly=False, experimental=False, c_api=c_api)


def refuse_cpu(error: Exception) -> None:
    """Makes the first use of JAX's CPU backend fail with this error."""
    from jax._src import xla_bridge

    def fail():
        raise RuntimeError(f"tessera cannot take the place of JAX's CPU backend: {error}") from error

    xla_bridge._backend_factories["cpu"] = xla_bridge.BackendRegistration(fail, priority=0, fail_quietly=False)
