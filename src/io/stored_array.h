// SPDX-License-Identifier: Apache-2.0
// Arrays in files that are not read whole: where their elements are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/input.h"

namespace tessera::io {

/// An array as a header describes it: its elements follow each other from `offset` on.
struct StoredArray {
  DType dtype = DType::F32;
  Shape shape;
  bool fortran = false;  ///< the first dimension varies fastest
  bool swap = false;     ///< big-endian
  std::uint64_t offset = 0;
};

/// Reads the header of a .npy of `size` bytes through `next`; it is checked against the size. Messages as those of
/// `load_npy`.
StoredArray read_npy_header(const NextBytes& next, std::uint64_t size, const std::string& name);
/// Elements in this machine's byte order, bools as 0 and 1.
void make_native(void* elements, DType dtype, std::int64_t count, bool swap);

/// Where the tensors of a safetensors file are.
class SafetensorsIndex {
 public:
  virtual ~SafetensorsIndex() = default;
  /// Throws `ValueError` naming the tensors that are there, `TypeError` for a dtype that Tessera lacks.
  virtual StoredArray find(const std::string& name) const = 0;
};
std::unique_ptr<SafetensorsIndex> read_safetensors_index(Input in);

}  // namespace tessera::io
