#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer's side of `make bench-mpi`: JAX's collectives between processes of the CPU, by gloo. Starts its processes itself
and prints "op bytes microseconds" of process 0; sizes are of a device's larger side.

usage: jax_collectives.py PROCESSES
"""
import socket
import subprocess
import sys
import time

SIZES = [16, 1024, 16384, 262144, 4194304, 67108864]
BATCHES = 5


def iterations(size: int) -> int:
    return 200 if size <= 16384 else 20 if size <= 1 << 20 else 4 if size <= 1 << 24 else 2


def worker(address: str, count: int, index: int) -> None:
    import jax
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, count, index)
    import numpy
    from jax import lax
    from jax.experimental import multihost_utils
    from jax.sharding import NamedSharding, PartitionSpec as P
    mesh = jax.make_mesh((count,), ("x",))
    rows = NamedSharding(mesh, P("x"))

    def timed(op, size, length, out, body):
        local = numpy.ones(length, numpy.float32)
        x = jax.make_array_from_process_local_data(rows, local, (count * length,))
        f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=out, check_vma=False))
        f(x).block_until_ready()
        best = 1e30
        for _ in range(BATCHES):
            multihost_utils.sync_global_devices("batch")
            begin = time.perf_counter()
            for _ in range(iterations(size)):
                f(x).block_until_ready()
            best = min(best, (time.perf_counter() - begin) / iterations(size))
        if index == 0:
            print(f"jax.{op} {size} {best * 1e6:.2f}", flush=True)

    for size in SIZES:
        n = size // 4
        timed("all_reduce", size, n, P(), lambda v: lax.psum(v, "x"))
        timed("all_gather", size, n // count, P(), lambda v: lax.all_gather(v, "x", tiled=True))
        timed("reduce_scatter", size, n, P("x"), lambda v: lax.psum_scatter(v, "x", tiled=True))
        timed("all_to_all", size, n, P("x"), lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True))


def main() -> None:
    count = int(sys.argv[1])
    if len(sys.argv) == 4:
        return worker(sys.argv[2], count, int(sys.argv[3]))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
    children = [subprocess.Popen([sys.executable, __file__, str(count), address, str(i)]) for i in range(count)]
    status = max(abs(child.wait(timeout=900)) for child in children)
    sys.exit(status)


main()
