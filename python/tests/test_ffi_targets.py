# SPDX-License-Identifier: Apache-2.0
"""Handlers of other libraries, built as these build them: with the headers of jaxlib."""
import ctypes
import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tessera
from jax.sharding import NamedSharding, PartitionSpec as P

SOURCE = r"""
#include <string_view>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;

// y = by * x + the sum of `add`, of a matrix whose rows may be its columns.
ffi::Error scale(float by, std::string_view how, ffi::Span<const int64_t> add, ffi::Dictionary more,
                 ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  if (how != "times") return ffi::Error::InvalidArgument("unknown: " + std::string(how));
  float sum = static_cast<float>(more.get<int32_t>("also").value());
  for (int64_t a : add) sum += static_cast<float>(a);
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = by * x.typed_data()[i] + sum;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Scale, scale, ffi::Ffi::Bind().Attr<float>("by").Attr<std::string_view>("how")
    .Attr<ffi::Span<const int64_t>>("add").Attr<ffi::Dictionary>("more").Arg<ffi::Buffer<ffi::F32>>()
    .Ret<ffi::Buffer<ffi::F32>>());

// Numbers the elements as they lie in memory; the operand and the result are one.
ffi::Error number(ffi::ScratchAllocator scratch, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  if (!scratch.Allocate(1 << 20)) return ffi::Error::Internal("no scratch");
  if (x.untyped_data() != y->untyped_data()) return ffi::Error::Internal("not one memory");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data<int32_t>()[i] += static_cast<int32_t>(i);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Number, number,
                              ffi::Ffi::Bind().Ctx<ffi::ScratchAllocator>().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

static int calls = 0;
ffi::Error count() { ++calls; return ffi::Error::Success(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(Count, count, ffi::Ffi::Bind());
extern "C" int counted() { return calls; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++")
    folder = tmp_path_factory.mktemp("ffi")
    (folder / "handlers.cc").write_text(SOURCE)
    subprocess.run([compiler, "-std=c++17", "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}", folder / "handlers.cc", "-o",
                    folder / "libhandlers.so"], check=True)
    lib = ctypes.CDLL(str(folder / "libhandlers.so"))
    for name in ("Scale", "Number", "Count"):
        jax.ffi.register_ffi_target(f"tessera_test_{name}", jax.ffi.pycapsule(getattr(lib, name)), platform="cpu")
    return lib


def scaled(x, how="times"):
    call = jax.ffi.ffi_call("tessera_test_Scale", jax.ShapeDtypeStruct(x.shape, x.dtype), vmap_method="sequential")
    return call(x, by=np.float32(2), how=how, add=np.array([1, 2], np.int64), more={"also": np.int32(4)})


def test_attributes_and_errors(library):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(jax.jit(scaled)(x), 2 * x + 7)
    np.testing.assert_array_equal(jax.vmap(scaled)(x), 2 * x + 7)
    with pytest.raises(jax.errors.JaxRuntimeError, match="tessera_test_Scale: unknown: plus"):
        jax.block_until_ready(scaled(x, "plus"))


def test_shards_call_it_for_themselves(library, mesh):
    x = jax.device_put(np.arange(32, dtype=np.float32).reshape(8, 4), NamedSharding(mesh, P("x", "y")))
    f = jax.jit(jax.shard_map(scaled, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y")))
    np.testing.assert_array_equal(f(x), 2 * np.asarray(x) + 7)
    assert len(tessera.comm_plan(f, x)) == 0
    np.testing.assert_array_equal(jax.jit(scaled)(x), 2 * np.asarray(x) + 7)  # whole


def test_layouts_and_aliases(library):
    x = jnp.zeros((2, 3), jnp.int32)
    call = lambda order: jax.jit(jax.ffi.ffi_call("tessera_test_Number", jax.ShapeDtypeStruct(x.shape, x.dtype),
                                                  input_layouts=[order], output_layouts=order,
                                                  input_output_aliases={0: 0}))
    np.testing.assert_array_equal(call((0, 1))(x), [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(call((1, 0))(x), [[0, 2, 4], [1, 3, 5]])
    np.testing.assert_array_equal(x, np.zeros((2, 3)))


def test_effects_are_not_left_out(library):
    def f(x):
        jax.ffi.ffi_call("tessera_test_Count", (), has_side_effect=True)()
        return x + 1

    before = library.counted()
    assert jax.block_until_ready(jax.jit(f)(1)) == 2 and library.counted() == before + 1


def test_a_target_that_is_not_there():
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"tessera_test_none is not known here.*test_ffi_targets.py:\d+"):
        jax.ffi.ffi_call("tessera_test_none", jax.ShapeDtypeStruct((), np.float32))()
