# SPDX-License-Identifier: Apache-2.0
"""Records portable artifacts of modules that other families of tests hold, and an exported function.

    python tools/hlo/record_bytecode.py tests/hlo

Writes tests/hlo/bytecode/artifacts.npz: "<family>.<case>/<version>" is an artifact, "<family>.<case>/text" the program
as jaxlib reads it back ("text-<version>" where that differs), "exported/file" what jax.export writes of a function whose
lines are those of `model.py`. Needs the package flatbuffers, as jax.export does.
"""
import argparse
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

from bytecode_modules import artifact_of, text_of

CASES = {
    "control": "while scan_grad switch_m3 token",
    "elementwise": "exp_f32 tanh_bfloat16",
    "forms": "gspmd_psum eigh_lower_float32 tridiagonal_float32",
    "indexing": "scatter_raw scatter_sub_window gather_raw gather_batch apply",
    "linalg": "triangular_float32 cholesky_complex64 rfft",
    "products": "conv_groups algorithm f8_dot batched",
    "randoms": "bits rbg_three_fry_uint16_3x7",
    "reductions": "window_pair select_and_scatter sort_keys reduce_custom",
    "shapes": "const_int4 const_f8 const_bools const_c64 const_big empty dynamic_slice_oob optimization_barrier pad",
    "sharding": "auto_matmul auto_constraint psum all_to_all ppermute manual_nested_jit explicit_matmul groups",
}
# Groups of devices by axes of a mesh, as JAX 0.11 writes them; older ones of jaxlib do not know all of these.
X, PART = '#stablehlo.axis_ref<name = "x">', '#stablehlo.axis_ref<name = "y", sub_axis_info = (2)2>'
AXES = 'axes = [#stablehlo.mesh_axis<name = "x", size = 2>, #stablehlo.mesh_axis<name = "y", size = 4>]'
GROUPS = {
    "named": f"mesh = @mesh, axes = [{X}, {PART}]",
    "quoted": f'mesh = @"other mesh", axes = [{X}]',
    "inline": f"mesh = #stablehlo.mesh<{AXES}>, axes = [{PART}]",
    "ordered": f"mesh = #stablehlo.mesh<{AXES}, device_ids = dense<[0, 4, 1, 5, 2, 6, 3, 7]> : tensor<8xi64>>, axes = [{X}]",
}
MESH_AXES = """\
module @groups attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  sdy.mesh @"other mesh" = <["x"=2, "y"=4]>
  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x", "y"}]>] out_shardings=[<@mesh, [{"x", "y"}]>] manual_axes={"x", "y"} (%arg1: tensor<1xf32>) {
      %1 = "stablehlo.all_reduce"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<GROUPS>, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
        %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }) : (tensor<1xf32>) -> tensor<1xf32>
      sdy.return %1 : tensor<1xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""
VERSIONS = ["1.17.0", "1.8.0", "1.0.0", "0.14.0", "0.9.0"]

MODEL = """\
def layer(x, w):
    return jnp.tanh(x @ w)


def model(x, w, b):
    y = layer(x, w)
    return y * 2.0 + b
"""


def as_array(data):
    return np.frombuffer(data, np.uint8)


def exported():
    scope = {"jnp": jnp}
    exec(compile(MODEL, "model.py", "exec"), scope)
    f32 = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2, 3), (3, 4), (4,))]
    return jax.export.export(jax.jit(scope["model"]))(*f32).serialize()


def mesh_axes():
    out = {}
    for case, groups in GROUPS.items():
        artifact = artifact_of(MESH_AXES.replace("GROUPS", groups), VERSIONS[0])
        if artifact is None:
            raise RuntimeError(f"jaxlib does not write groups by mesh axes ({case}); jaxlib 0.11.0 does")
        out[f"mesh_axes.{case}/{VERSIONS[0]}"] = as_array(artifact)
        out[f"mesh_axes.{case}/text"] = as_array(text_of(artifact).encode())
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("folder")
    o = ap.parse_args()
    out, n = {"exported/file": as_array(bytes(exported())), **mesh_axes()}, 0
    for family, cases in CASES.items():
        programs = np.load(os.path.join(o.folder, f"{family}.npz"))
        for case in cases.split():
            text = bytes(programs[f"{case}/program"]).decode()
            # The newest version of each, and one of the older ones in turn.
            n += 1
            for version in (VERSIONS[0], VERSIONS[1 + n % (len(VERSIONS) - 1)]):
                artifact = artifact_of(text, version)
                if artifact is None:
                    continue
                out[f"{family}.{case}/{version}"] = as_array(artifact)
                key = f"{family}.{case}/text"
                said = as_array(text_of(artifact).encode())
                if not np.array_equal(out.setdefault(key, said), said):  # an older version says it otherwise
                    out[f"{key}-{version}"] = said
    np.savez_compressed(os.path.join(o.folder, "bytecode", "artifacts.npz"), **out)
    print(f"{len(out)} arrays")


if __name__ == "__main__":
    main()
