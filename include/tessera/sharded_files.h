// SPDX-License-Identifier: Apache-2.0
// Files of NumPy and safetensors read shard by shard: each process reads the bytes of its own devices' shards and no
// others, so that a file larger than a process's memory can be loaded. Optional: `tessera/tessera.h` leaves it out.
// `tessera/io.h` reads whole arrays to the host; `tessera/checkpoint.h` has the library's own sharded format, with
// checksums for every block.
//
//   ts::Array table = ts::load_npy("table.npy", ts::NamedSharding(mesh, ts::P("data")).share());
//   Params p = ts::load_safetensors_like("model.safetensors", p0);  // each leaf by its path, placed as that of p0
//
// .npy, safetensors and uncompressed members of .npz are read by the needed runs of bytes, the first two through memory
// maps; a compressed member has to be read from its beginning, and is read whole by every process. Damage to elements
// is not noticed where only a part of an array is read: checksums of safetensors and of .npz are those of whole arrays.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/array.h"
#include "tessera/sharding.h"
#include "tessera/tree.h"

namespace tessera {

/// The array of a .npy file under a sharding, committed; every process of the sharding's devices calls it for itself,
/// and nothing is sent. Bytes read: those of this process's distinct shards, and the header. Throws as `load_npy`, and
/// as `device_put` for a sharding that does not fit.
Array load_npy(const std::string& path, const ShardingPtr& sharding, const Loc& loc = Loc::current());

/// Members of a .npz archive by name, each under its sharding; others are not read. Throws as `load_npz`.
std::map<std::string, Array> load_npz(const std::string& path, const std::map<std::string, ShardingPtr>& shardings,
                                      const Loc& loc = Loc::current());

/// Tensors of a safetensors file by name, each under its sharding; others are not read. Throws as `load_safetensors`.
std::map<std::string, Array> load_safetensors(const std::string& path,
                                              const std::map<std::string, ShardingPtr>& shardings,
                                              const Loc& loc = Loc::current());

namespace detail {
/// Leaves of a file for `load_safetensors_like`. Throws `ValueError` for a shape and `TypeError` for a dtype other than
/// those of `like`.
std::vector<Array> load_leaves_like(const std::string& path, const std::vector<std::string>& names,
                                    const std::vector<Array>& like);
}  // namespace detail

/// A tree with the shapes, dtypes and shardings of `like` and the values of a safetensors file, whose tensors have the
/// names of the leaves (`tree_paths`). Throws as `load_safetensors`, `ValueError` for a leaf of another shape, and
/// `TypeError` for one of another dtype.
template <class T>
T load_safetensors_like(const std::string& path, const T& like, const Loc& = Loc::current()) {
  return tree_unflatten(like, detail::load_leaves_like(path, tree_paths(like), tree_leaves(like)));
}

}  // namespace tessera
