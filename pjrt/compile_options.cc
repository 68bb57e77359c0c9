// SPDX-License-Identifier: Apache-2.0
// Numbers of fields: xla/pjrt/proto/compile_options.proto and xla/xla_data.proto of OpenXLA.
#include "compile_options.h"

#include <functional>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::pjrt {

namespace {

class Cursor {
 public:
  Cursor(std::string_view bytes, std::size_t at) : bytes_(bytes), start_(at) {}
  bool at_end() const { return at_ == bytes_.size(); }
  std::uint64_t varint() {
    std::uint64_t out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_end()) break;
      auto byte = static_cast<unsigned char>(bytes_[at_++]);
      out |= static_cast<std::uint64_t>(byte & 127U) << shift;
      if (byte < 128) return out;
    }
    broken("a number that does not end");
  }
  std::string_view stretch(std::uint64_t n) {
    if (n > bytes_.size() - at_) broken("a field that does not end");
    auto out = bytes_.substr(at_, static_cast<std::size_t>(n));
    at_ += out.size();
    return out;
  }
  std::size_t offset() const { return start_ + at_; }
  [[noreturn]] void broken(const char* what) const {
    throw FormatError(str("compile options: ", what, " at byte ", offset()), "", 0, 0);
  }

 private:
  std::string_view bytes_;
  std::size_t start_ = 0;
  std::size_t at_ = 0;
};

struct Field {
  std::uint64_t number = 0;
  bool is_number = false;
  std::uint64_t value = 0;  ///< of a number
  std::string_view bytes;   ///< of a message, string or packed list
  std::size_t offset = 0;
};

void each_field(std::string_view message, std::size_t at, const std::function<void(const Field&)>& f) {
  Cursor in(message, at);
  while (!in.at_end()) {
    std::uint64_t tag = in.varint();
    Field field;
    field.number = tag >> 3;
    switch (tag & 7U) {
      case 0:
        field.is_number = true;
        field.value = in.varint();
        break;
      case 1:
        in.stretch(8);
        continue;
      case 2: {
        std::uint64_t n = in.varint();
        field.offset = in.offset();
        field.bytes = in.stretch(n);
        break;
      }
      case 5:
        in.stretch(4);
        continue;
      default:
        in.broken("a field of an unknown kind");
    }
    f(field);
  }
}

// A repeated number, packed or not.
template <class F>
void each_number(const Field& field, const F& f) {
  if (field.is_number) {
    f(field.value);
    return;
  }
  Cursor in(field.bytes, field.offset);
  while (!in.at_end()) f(in.varint());
}

std::int64_t count(const Field& field, const char* name) {
  auto n = static_cast<std::int64_t>(field.value);
  constexpr std::int64_t kMost = 1 << 20;
  if (n < 1 || n > kMost) throw ValueError(str("compile options: ", name, " = ", n, "; expected 1..", kMost));
  return n;
}

// DeviceAssignmentProto: one list of replicas for each partition.
void device_assignment(const Field& message, CompileOptions& out) {
  std::vector<std::vector<std::int64_t>> by_partition;
  each_field(message.bytes, message.offset, [&](const Field& f) {
    if (f.number != 3) return;
    auto& ids = by_partition.emplace_back();
    each_field(f.bytes, f.offset, [&](const Field& g) {
      if (g.number == 1) each_number(g, [&](std::uint64_t n) { ids.push_back(static_cast<std::int64_t>(n)); });
    });
  });
  if (by_partition.empty()) return;
  for (std::size_t r = 0; r < by_partition[0].size(); ++r) {
    for (const auto& ids : by_partition) {
      if (ids.size() != by_partition[0].size()) {
        throw ValueError("compile options: the device assignment has partitions of different numbers of replicas");
      }
      if (ids[r] < 0) throw ValueError(str("compile options: the device assignment has device id ", ids[r]));
      out.device_ids.push_back(ids[r]);
    }
  }
}

void build_options(const Field& message, CompileOptions& out) {
  each_field(message.bytes, message.offset, [&](const Field& f) {
    switch (f.number) {
      case 1:
        out.device_ordinal = static_cast<std::int64_t>(f.value);
        break;
      case 4:
        out.num_replicas = count(f, "num_replicas");
        break;
      case 5:
        out.num_partitions = count(f, "num_partitions");
        break;
      case 9:
        device_assignment(f, out);
        break;
      case 12:
        each_number(f, [&](std::uint64_t n) { out.propagate_to_outputs.push_back(n != 0); });
        break;
      default:
        break;
    }
  });
}

void put_varint(std::string& to, std::uint64_t n) {
  for (; n >= 128; n >>= 7) to += static_cast<char>(n | 128U);
  to += static_cast<char>(n);
}

}  // namespace

CompileOptions parse_compile_options(std::string_view bytes) {
  CompileOptions out;
  each_field(bytes, 0, [&](const Field& f) {
    if (f.number == 3) build_options(f, out);
    if (f.number != 7) return;
    each_field(f.bytes, f.offset, [&](const Field& g) {
      if (g.number == 1) out.overrides.emplace_back(g.bytes);
    });
  });
  std::int64_t n = out.num_replicas * out.num_partitions;
  if (!out.device_ids.empty() && static_cast<std::int64_t>(out.device_ids.size()) != n) {
    throw ValueError(str("compile options: a device assignment of ", out.device_ids.size(), " devices for ",
                         out.num_replicas, " replicas of ", out.num_partitions, " partitions"));
  }
  return out;
}

std::string serialized_device_assignment(std::int64_t replicas, std::int64_t partitions,
                                         const std::vector<std::int64_t>& device_ids) {
  std::string out;
  out += '\x08';
  put_varint(out, static_cast<std::uint64_t>(replicas));
  out += '\x10';
  put_varint(out, static_cast<std::uint64_t>(partitions));
  for (std::int64_t p = 0; p < partitions; ++p) {
    std::string ids;
    for (std::int64_t r = 0; r < replicas; ++r) {
      put_varint(ids, static_cast<std::uint64_t>(device_ids[static_cast<std::size_t>(r * partitions + p)]));
    }
    std::string computation = "\x0a";
    put_varint(computation, ids.size());
    computation += ids;
    out += '\x1a';
    put_varint(out, computation.size());
    out += computation;
  }
  return out;
}

}  // namespace tessera::pjrt
