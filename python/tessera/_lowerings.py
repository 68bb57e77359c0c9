# SPDX-License-Identifier: Apache-2.0
"""Primitives of JAX that are lowered for Tessera in another way than for XLA's CPU backend."""
import numpy as np

from . import _host_callbacks


def install() -> None:
    """From now on programs for the CPU platform are lowered by these rules, but for those of `jax_own_lowering`."""
    from jax._src import buffer_callback, custom_partitioning
    from jax._src.interpreters import mlir

    _replace(mlir, custom_partitioning.custom_partitioning_p, custom_partitioning._custom_partitioning_lowering_rule,
             _whole_function)
    _replace(mlir, buffer_callback.buffer_callback_p, buffer_callback._buffer_callback_lowering, _buffer_callback)


def _replace(mlir, primitive, jax_rule, rule) -> None:
    def lower(ctx, *operands, **params):
        return (jax_rule if _host_callbacks.is_jax_own_lowering() else rule)(ctx, *operands, **params)

    mlir.register_lowering(primitive, lower, platform="cpu")


def _whole_function(ctx, *operands, call, **_):
    """A custom partitioning by what its function computes: Tessera's partitioner splits that by itself, and the
    program's own `partition` and `infer_sharding_from_operands`, which speak XLA's language, are not called."""
    from jax._src import core
    from jax._src.interpreters import mlir

    return mlir.lower_fun(core.jaxpr_as_fun(call), multiple_results=True)(ctx, *operands)


class Buffer:
    """`jax.experimental.buffer_callback.Buffer`: memory of an operand or a result on the host."""

    def __init__(self, array: np.ndarray):
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> np.dtype:
        return self._array.dtype

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def writeable(self) -> bool:
        return self._array.flags.writeable

    def __array__(self, dtype=None, copy=None):
        return np.array(self._array, dtype=dtype, copy=copy)

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class ExecutionContext:
    """`jax.experimental.buffer_callback.ExecutionContext` of a call on the host."""

    @property
    def stage(self):
        from jax._src import buffer_callback

        return buffer_callback.ExecutionStage.EXECUTE

    @property
    def stream(self):
        import jax

        raise jax.errors.JaxRuntimeError("XLA FFI GPU context is not available")


def _buffer_callback(ctx, *operands, callback, in_tree, out_tree, has_side_effect, input_output_aliases, **_):
    from jax._src import ffi, tree_util

    results = [(aval.shape, aval.dtype) for aval in ctx.avals_out]

    def call(*args):
        taken = dict(input_output_aliases)
        ins, outs = list(args), [None] * len(results)
        for i, o in taken.items():  # one and the same memory
            ins[i] = outs[o] = args[i].copy()
        outs = [np.empty(*r) if out is None else out for r, out in zip(results, outs)]
        args_in, kwargs_in = tree_util.tree_unflatten(in_tree, [Buffer(a) for a in ins])
        args_out = tree_util.tree_unflatten(out_tree, [Buffer(a) for a in outs])
        if callback(ExecutionContext(), args_out, *args_in, **kwargs_in) is not None:
            raise ValueError("buffer_callback callback must not return any values.")
        return outs

    ctx.module_context.add_host_callback(call)
    rule = ffi.ffi_lowering("xla_ffi_python_cpu_callback", has_side_effect=has_side_effect)
    return rule(ctx, *operands, index=_host_callbacks.number_of(ctx, call))
