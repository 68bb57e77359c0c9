// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharded_files.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "array/array_impl.h"
#include "base/strings.h"
#include "core/strided_copy.h"
#include "io/array_to_fill.h"
#include "io/checkpoint/files.h"
#include "io/runs.h"
#include "io/sharded_read.h"
#include "sharding/fits.h"
#include "tessera/error.h"

namespace tessera {

namespace io {

namespace {

template <class T>
T reversed(T list) {
  std::ranges::reverse(list);
  return list;
}

void read_block(const StoredArray& stored, const BlockMemory& block, const ReadBytes& read) {
  const std::int64_t item = dtype_size(stored.dtype);
  // In the order of the file, where the last dimension varies fastest.
  const bool turned = stored.fortran && stored.shape.size() > 1;
  const Shape file_shape = turned ? reversed(stored.shape) : stored.shape;
  const Shape shape = turned ? reversed(block.shape) : block.shape;
  HostArray aside = turned ? HostArray(stored.dtype, shape) : HostArray();
  char* to = turned ? static_cast<char*>(aside.data()) : block.to;
  const Dims to_strides = core::contiguous_strides(shape, item);
  for_each_run(turned ? reversed(block.start) : block.start, shape, core::contiguous_strides(file_shape, item),
               to_strides, item,
               [&](std::uint64_t from, std::int64_t at, std::uint64_t n) { read(stored.offset + from, n, to + at); });
  make_native(to, stored.dtype, size_of(shape), stored.swap);
  if (turned) {
    core::copy_strided(block.to, core::contiguous_strides(block.shape, item), aside.data(), reversed(to_strides),
                       block.shape, item);
  }
}

void check_sharding(const char* function, const ShardingPtr& sharding, const Shape& shape) {
  if (!sharding) throw ValueError(str(function, ": sharding is null; expected a Sharding"));
  sharding::check_fits(function, "sharding", *sharding, shape);
}

ReadBytes from(const MappedFile& file) {
  return [&file](std::uint64_t offset, std::uint64_t n, char* to) {
    std::memcpy(to, file.bytes(offset, n, ReadKind::Data).data(), static_cast<std::size_t>(n));
  };
}

}  // namespace

Array read_shards(const char* function, const StoredArray& stored, const ShardingPtr& sharding, const ReadBytes& read) {
  check_sharding(function, sharding, stored.shape);
  const ArrayToFill array(ir::Type{stored.dtype, stored.shape}, sharding, true);
  for (const BlockMemory& b : array.blocks()) {
    if (size_of(b.shape) > 0) read_block(stored, b, read);
  }
  return array.finish();
}

Array placed(const char* function, const HostArray& value, const ShardingPtr& sharding) {
  check_sharding(function, sharding, value.shape());
  return arrays::place(value, sharding, true, /*adopt=*/true);
}

}  // namespace io

namespace {

constexpr const char kSafetensors[] = "load_safetensors";

// The headers of a file were read and checked; its tensors come one after the other.
class OpenSafetensors {
 public:
  explicit OpenSafetensors(const std::string& path)
      : file_(kSafetensors, path), index_(io::read_safetensors_index(io::Input::open(kSafetensors, path))) {}
  io::StoredArray find(const std::string& name) const { return index_->find(name); }
  Array read(const std::string& name, const ShardingPtr& sharding) const {
    return io::read_shards(kSafetensors, find(name), sharding, io::from(file_));
  }

 private:
  io::MappedFile file_;
  std::unique_ptr<io::SafetensorsIndex> index_;
};

}  // namespace

Array load_npy(const std::string& path, const ShardingPtr& sharding, const Loc&) {
  const io::MappedFile file("load_npy", path);
  std::uint64_t at = 0;
  auto next = [&](void* to, std::size_t n) {
    if (n > 0) std::memcpy(to, file.bytes(at, n, io::ReadKind::Index).data(), n);
    at += n;
  };
  const io::StoredArray stored = io::read_npy_header(next, file.size(), path);
  return io::read_shards("load_npy", stored, sharding, io::from(file));
}

std::map<std::string, Array> load_safetensors(const std::string& path,
                                              const std::map<std::string, ShardingPtr>& shardings, const Loc&) {
  const OpenSafetensors file(path);
  std::map<std::string, Array> out;
  for (const auto& [name, sharding] : shardings) out[name] = file.read(name, sharding);
  return out;
}

std::vector<Array> detail::load_leaves_like(const std::string& path, const std::vector<std::string>& names,
                                            const std::vector<Array>& like) {
  constexpr const char kFunction[] = "load_safetensors_like";
  const OpenSafetensors file(path);
  // What is wrong with any leaf comes before memory is asked for.
  for (std::size_t i = 0; i < names.size(); ++i) {
    arrays::checked(like[i], kFunction, str("leaf \"", names[i], "\" of like").c_str());
    const io::StoredArray stored = file.find(names[i]);
    if (stored.shape != like[i].shape()) {
      throw ValueError(str(kFunction, ": tensor \"", names[i], "\" of \"", path, "\" has shape ", stored.shape,
                           "; expected ", like[i].shape(), ", the shape of the leaf of like"));
    }
    if (stored.dtype != like[i].dtype()) {
      throw TypeError(str(kFunction, ": tensor \"", names[i], "\" of \"", path, "\" has dtype ",
                          dtype_name(stored.dtype), "; expected ", dtype_name(like[i].dtype()),
                          ", the dtype of the leaf of like; load it as that and convert with astype"));
    }
  }
  std::vector<Array> out;
  for (std::size_t i = 0; i < names.size(); ++i) out.push_back(file.read(names[i], like[i].sharding()));
  return out;
}

}  // namespace tessera
