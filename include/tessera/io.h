// SPDX-License-Identifier: Apache-2.0
// Files: NumPy's .npy and .npz, and safetensors. Readers take any bytes: what does not have its format throws
// `FormatError` with the file's name, and files that claim more memory than they have bytes are rejected.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/array.h"
#include "tessera/host_array.h"
#include "tessera/tree.h"

namespace tessera {

/// Reads one array of a .npy file. Throws `ValueError` naming the path when the file cannot be opened, `FormatError`
/// when it is no .npy, `TypeError` for a dtype that Tessera lacks. Untyped elements of two bytes ("V2") are bfloat16:
/// NumPy saves those of ml_dtypes so.
HostArray load_npy(const std::string& path);
/// Writes one array as a .npy file; bfloat16 has no NumPy dtype and is written as float32. Throws `ValueError` naming a
/// path that cannot be written.
void save_npy(const std::string& path, const HostArray& value);

using HostArrays = std::map<std::string, HostArray>;
/// Every member of a .npz archive, by its name without the ".npy". Throws as `load_npy`.
HostArrays load_npz(const std::string& path);
/// Writes a .npz archive. It is written to a new file beside the path and then renamed: a failure leaves an old file as
/// it was. Throws `ValueError` naming a path that cannot be written.
void save_npz(const std::string& path, const HostArrays& values);

/// Every tensor of a safetensors file (https://huggingface.co/docs/safetensors), by name. Throws `ValueError` naming
/// the path, `FormatError`, and `TypeError` for a dtype that Tessera lacks.
HostArrays load_safetensors(const std::string& path);
/// Writes a safetensors file. Throws `ValueError` naming a path that cannot be written.
void save_safetensors(const std::string& path, const HostArrays& values);

/// `load_npy` of bytes in memory; `name` is used in messages.
HostArray parse_npy(const std::string& bytes, const std::string& name = "bytes");
/// `load_npz` of bytes in memory.
HostArrays parse_npz(const std::string& bytes, const std::string& name = "bytes");
/// `load_safetensors` of bytes in memory.
HostArrays parse_safetensors(const std::string& bytes, const std::string& name = "bytes");

/// A tree's leaves on the host by their paths (`tree_paths`): what `save_npz` and `save_safetensors` take. Throws as
/// `Array::host`.
template <class T>
HostArrays named_leaves(const T& tree) {
  HostArrays out;
  std::vector<std::string> names = tree_paths(tree);
  std::vector<Array> leaves = tree_leaves(tree);
  for (std::size_t i = 0; i < names.size(); ++i) out[names[i]] = leaves[i].host();
  return out;
}
/// `like` with leaves from the file, each placed as the leaf of `like` is. Throws `ValueError` naming a leaf that is
/// missing or has another shape.
template <class T>
T with_named_leaves(const T& like, const HostArrays& values) {
  std::vector<std::string> names = tree_paths(like);
  std::vector<Array> leaves = tree_leaves(like);
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto it = values.find(names[i]);
    if (it == values.end()) throw ValueError("with_named_leaves: no array named \"" + names[i] + "\"");
    if (it->second.shape() != leaves[i].shape()) {
      throw ValueError("with_named_leaves: \"" + names[i] + "\" has shape " + to_string(it->second.shape()) +
                       "; expected " + to_string(leaves[i].shape()));
    }
    leaves[i] = device_put(it->second.astype(leaves[i].dtype()), leaves[i].sharding());
  }
  return tree_unflatten(like, leaves);
}

}  // namespace tessera
