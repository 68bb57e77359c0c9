// SPDX-License-Identifier: Apache-2.0
// Files: NumPy's .npy and .npz, and safetensors. Readers take any bytes: what does not have its format throws
// `FormatError` with the file's name, and files that ask for more memory than they have bytes are refused.
//
// A damaged .npz is refused: its members carry checksums, which are compared. Safetensors files of this library carry a
// checksum for each tensor in their metadata, which is compared where it is there; other writers' files, and every
// .npy, have none, so that of these only damage to the header or the length is seen.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/host_array.h"
#include "tessera/tree.h"

namespace tessera {

/// Reads one array of a .npy file. Throws `ValueError` naming the path when the file cannot be opened, `FormatError`
/// when it is no .npy or bytes follow the array, `TypeError` for a dtype that Tessera lacks. Untyped elements of two
/// bytes ("V2") are bfloat16: NumPy saves those of ml_dtypes so.
HostArray load_npy(const std::string& path, const Loc& loc = Loc::current());
/// Writes one array as a .npy file; bfloat16 has no NumPy dtype and is written as float32. As all `save_` functions:
/// follows symbolic links, keeps the mode of an old file, and puts the new file in its place when it is complete and on
/// the disk; a failure, which throws `ValueError` naming the path and the reason, leaves an old file as it was. Devices
/// and pipes are written to directly.
void save_npy(const std::string& path, const HostArray& value, const Loc& loc = Loc::current());

/// Arrays by name: a `std::map` whose errors name the key and the names that are there.
class HostArrays : public std::map<std::string, HostArray> {
 public:
  using Base = std::map<std::string, HostArray>;
  using Base::Base;
  HostArrays() = default;
  HostArrays(Base arrays) : Base(std::move(arrays)) {}
  /// Without arrays; `file` stands in the messages.
  explicit HostArrays(std::string file);

  /// Throws `ValueError` where there is no such array.
  const HostArray& at(const std::string& key) const;
  HostArray& at(const std::string& key);
  /// Of arrays that can be changed: adds an undefined one where there is none, as `std::map`. Of others: as `at`.
  HostArray& operator[](const std::string& key) & { return Base::operator[](key); }
  const HostArray& operator[](const std::string& key) const& { return at(key); }
  HostArray operator[](const std::string& key) && { return at(key); }

 private:
  void check_has(const std::string& key) const;
  std::string file_;
};

/// Every member of a .npz archive, by its name without the ".npy". Throws as `load_npy`.
HostArrays load_npz(const std::string& path, const Loc& loc = Loc::current());
/// Only the members of these names: others are not read. Throws `ValueError` naming the first that is missing and the
/// names that are there.
HostArrays load_npz(const std::string& path, const std::vector<std::string>& names, const Loc& loc = Loc::current());
/// The same for `{"a", "b"}`.
inline HostArrays load_npz(const std::string& path, std::initializer_list<std::string> names,
                           const Loc& loc = Loc::current()) {
  return load_npz(path, std::vector<std::string>(names), loc);
}
/// Writes a .npz archive, as `save_npy` writes files.
void save_npz(const std::string& path, const HostArrays& values, const Loc& loc = Loc::current());

/// Every tensor of a safetensors file (https://huggingface.co/docs/safetensors), by name. Throws `ValueError` naming
/// the path, `FormatError`, and `TypeError` for a dtype that Tessera lacks.
HostArrays load_safetensors(const std::string& path, const Loc& loc = Loc::current());
/// Only the tensors of these names, as `load_npz`.
HostArrays load_safetensors(const std::string& path, const std::vector<std::string>& names,
                            const Loc& loc = Loc::current());
/// The same for `{"a", "b"}`.
inline HostArrays load_safetensors(const std::string& path, std::initializer_list<std::string> names,
                                   const Loc& loc = Loc::current()) {
  return load_safetensors(path, std::vector<std::string>(names), loc);
}
/// Writes a safetensors file. Throws `TypeError` for complex128, which the format lacks, and `ValueError` for a name
/// that it cannot hold.
void save_safetensors(const std::string& path, const HostArrays& values, const Loc& loc = Loc::current());

/// `load_npy` of bytes in memory; `name` is used in messages.
HostArray parse_npy(const std::string& bytes, const std::string& name = "bytes", const Loc& loc = Loc::current());
/// `load_npz` of bytes in memory.
HostArrays parse_npz(const std::string& bytes, const std::string& name = "bytes", const Loc& loc = Loc::current());
/// `load_safetensors` of bytes in memory.
HostArrays parse_safetensors(const std::string& bytes, const std::string& name = "bytes",
                             const Loc& loc = Loc::current());

namespace detail {
/// The value of a leaf. Throws as `Array::host`, naming the leaf.
HostArray host_of_leaf(const Array& leaf, const std::string& name);
}  // namespace detail

/// A tree's leaves on the host by their paths (`tree_paths`): what `save_npz` and `save_safetensors` take. Throws as
/// `Array::host`.
template <class T>
HostArrays named_leaves(const T& tree, const Loc& = Loc::current()) {
  HostArrays out;
  std::vector<std::string> names = tree_paths(tree);
  std::vector<Array> leaves = tree_leaves(tree);
  for (std::size_t i = 0; i < names.size(); ++i) out[names[i]] = detail::host_of_leaf(leaves[i], names[i]);
  return out;
}
/// `like` with leaves from the file, each placed as the leaf of `like` is. Throws `ValueError` naming a leaf that is
/// missing, with the names that are there, or that has another shape. Files from before members of structs had names
/// (".0" for the first) are read too.
template <class T>
T with_named_leaves(const T& like, const HostArrays& values, const Loc& = Loc::current()) {
  std::vector<std::string> names = tree_paths(like);
  std::vector<std::string> old_names = detail::numbered_tree_paths(like);
  std::vector<Array> leaves = tree_leaves(like);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool old = !values.contains(names[i]) && values.contains(old_names[i]);
    const HostArray& value = values.at(old ? old_names[i] : names[i]);
    if (value.shape() != leaves[i].shape()) {
      throw ValueError("with_named_leaves: \"" + names[i] + "\" has shape " + to_string(value.shape()) + "; expected " +
                       to_string(leaves[i].shape()));
    }
    leaves[i] = device_put(value.astype(leaves[i].dtype()), leaves[i].sharding());
  }
  return tree_unflatten(like, leaves);
}

}  // namespace tessera
