# SPDX-License-Identifier: Apache-2.0
import jax
import pytest
from jax._src import custom_partitioning, xla_bridge
from tessera import _backend


def test_versions_of_jax():
    for good in ("0.9.1", "0.9.2", "0.10.0", "0.12.0.1", "1.0.0", jax.__version__):
        _backend.check_version(good)
    for old in ("0.9.0.1", "0.9.0", "0.8.3"):
        with pytest.raises(ImportError, match=f"JAX {old} is too old; expected 0.9.1 or newer"):
            _backend.check_version(old)


def test_a_jax_that_lacks_something(monkeypatch):
    monkeypatch.setattr(xla_bridge, "_backends", {})
    monkeypatch.delattr(custom_partitioning, "custom_partitioning_p")
    with pytest.raises(ImportError, match=f"JAX {jax.__version__} with jaxlib .* was tried with 0.9.1 to .*custom_partitioning_p"):
        _backend.replace_cpu()


def test_device_count(monkeypatch):
    monkeypatch.setenv("TESSERA_CPU_DEVICES", "12")
    assert _backend.device_count() == 12
    for wrong in ("0", "-1", "many", ""):
        monkeypatch.setenv("TESSERA_CPU_DEVICES", wrong)
        with pytest.raises(ValueError, match="expected a number of devices, 1 or more"):
            _backend.device_count()


def test_tessera_stands_in_the_place_of_the_cpu_backend():
    assert len(jax.devices()) == 8 and "Tessera" in jax.devices()[0].client.platform_version
