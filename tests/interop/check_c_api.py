#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C interface from another language: every declaration of the header is taken as it stands, through cffi, and the library is
called from several threads and with callbacks of Python.

usage: check_c_api.py LIBTESSERA.so C_API.h    (gives 77 where Python has no cffi)
"""
import concurrent.futures
import pathlib
import re
import struct
import sys

try:
    import cffi
except ImportError:
    print("left out: this Python has no cffi (Debian: python3-cffi)")
    sys.exit(77)

HEADER = pathlib.Path(sys.argv[2]).read_text()
ffi = cffi.FFI()
ffi.cdef(re.sub(r'^#.*$|^extern "C" \{$|^\}$|TESSERA_C_API ', "", HEADER, flags=re.M))
lib = ffi.dlopen(sys.argv[1])

SUM_OVER_DEVICES = b"""
module @sum attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}
"""


class Failure(Exception):
    def __init__(self, kind: int, message: str):
        super().__init__(message)
        self.kind = kind


def ok(error) -> None:
    if error != ffi.NULL:
        failure = Failure(lib.tessera_error_get_kind(error), ffi.string(lib.tessera_error_message(error)).decode())
        lib.tessera_error_free(error)
        raise failure


def made(type_name: str, call, *args):
    """The handle that a function gives through its last argument; Python frees it."""
    out = ffi.new(f"{type_name}**")
    ok(call(*args, out))
    return ffi.gc(out[0], getattr(lib, f"{type_name}_free"))


def text_of(call, *args) -> str:
    string = made("tessera_string", call, *args)
    return ffi.string(lib.tessera_string_data(string)).decode()


def struct_of(name: str, **fields):
    return ffi.new(f"{name}*", {"struct_size": ffi.sizeof(name), **fields})


def on_host(array, count: int) -> tuple:
    data = ffi.new("float[]", count)
    ok(lib.tessera_array_to_host(array, data, ffi.sizeof(data)))
    return tuple(data)


def check_arrays(client, split) -> None:
    shape = ffi.new("int64_t[]", [8])
    data = ffi.from_buffer(struct.pack("8f", *range(8)))
    array = made("tessera_array", lib.tessera_array_from_host,
                 struct_of("tessera_host_buffer", dtype=lib.TESSERA_F32, rank=1, shape=shape, data=data, nbytes=32), split)
    assert on_host(array, 8) == tuple(range(8))
    start, stop, count = ffi.new("int64_t*"), ffi.new("int64_t*"), ffi.new("size_t*")
    ok(lib.tessera_array_shard_index(array, 2, start, stop, 1, count))
    assert (start[0], stop[0], count[0]) == (4, 6, 1)
    assert on_host(made("tessera_array", lib.tessera_array_shard, array, 2), 2) == (4.0, 5.0)

    @ffi.callback("tessera_fill_shard")
    def fill(context, start, stop, rank, data, nbytes):
        ffi.buffer(data, nbytes)[:] = struct.pack(f"{stop[0] - start[0]}f", *range(10 * start[0], 10 * stop[0], 10))
        return 0

    filled = made("tessera_array", lib.tessera_array_from_callback, lib.TESSERA_F32, shape, 1, split, fill, ffi.NULL)
    assert on_host(filled, 8) == tuple(range(0, 80, 10))
    try:
        on_host(filled, 7)
        raise AssertionError("7 elements of 8 were taken")
    except Failure as failure:
        assert failure.kind == lib.TESSERA_ERROR_VALUE and "nbytes = 28" in str(failure)


def check_program(client, split) -> None:
    program = made("tessera_program", lib.tessera_program_parse, client, SUM_OVER_DEVICES, len(SUM_OVER_DEVICES), ffi.NULL)
    shape = ffi.new("int64_t[]", [8])

    def one_run(number: int) -> None:
        data = ffi.from_buffer(struct.pack("8f", *range(number, number + 8)))
        array = made("tessera_array", lib.tessera_array_from_host,
                     struct_of("tessera_host_buffer", dtype=lib.TESSERA_F32, rank=1, shape=shape, data=data, nbytes=32), split)
        results = ffi.new("tessera_array*[1]")
        ok(lib.tessera_program_run(program, ffi.new("tessera_array*[]", [array]), 1, results, 1))
        assert on_host(ffi.gc(results[0], lib.tessera_array_free), 1) == (28.0 + 8 * number,), number

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one_run, range(64)))
    array = made("tessera_array", lib.tessera_array_from_callback, lib.TESSERA_F32, shape, 1, split,
                 ffi.callback("tessera_fill_shard", lambda *_: 0), ffi.NULL)
    plan = made("tessera_plan", lib.tessera_program_plan, program, ffi.new("tessera_array*[]", [array]), 1)
    step = struct_of("tessera_plan_step")
    ok(lib.tessera_plan_get_step(plan, 0, step))
    assert (ffi.string(step.op), ffi.string(step.axes)) == (b"all_reduce", b"x")
    assert "all_reduce" in text_of(lib.tessera_plan_text, plan)
    assert "stablehlo.all_reduce" in text_of(lib.tessera_program_device_text, program, ffi.new("tessera_array*[]", [array]), 1)
    try:
        made("tessera_program", lib.tessera_program_parse, client, b"no module", 9, ffi.NULL)
        raise AssertionError("no module was taken")
    except Failure as failure:
        assert failure.kind == lib.TESSERA_ERROR_FORMAT, failure


def check_exports() -> int:
    """Every function of the header is one of the library."""
    functions = re.findall(r"TESSERA_C_API [^;(]*?(tessera_\w+)\(", HEADER)
    for name in functions:
        getattr(lib, name)
    return len(functions)


def main() -> None:
    client = made("tessera_client", lib.tessera_client_cpu, struct_of("tessera_cpu_options", devices=4))
    axis = ffi.new("char[]", b"x")
    mesh = made("tessera_mesh", lib.tessera_mesh_create, client, ffi.new("int64_t[]", [4]), ffi.new("char*[]", [axis]), 1, ffi.NULL)
    split = made("tessera_sharding", lib.tessera_sharding_named, mesh, ffi.new("char*[]", [axis]), 1, ffi.NULL)
    check_arrays(client, split)
    check_program(client, split)
    print(f"version {ffi.string(lib.tessera_version_text()).decode()}: {check_exports()} functions, all there")


if __name__ == "__main__":
    main()
