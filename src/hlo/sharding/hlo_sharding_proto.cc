// SPDX-License-Identifier: Apache-2.0
// The serialized OpSharding message that JAX writes in place of the string for lists of more than 100 devices.
#include <span>

#include "base/protobuf.h"
#include "base/strings.h"
#include "hlo/sharding/hlo_sharding.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
// Fields of the message in xla_data.proto.
enum class WireField : std::uint64_t {
  Kind = 1,
  Dimensions = 3,
  Devices = 4,
  Tuple = 5,
  ReplicateLast = 6,
  LastDims = 8,
  Reshape = 9,
  Permutation = 10,
};
enum class WireType : std::int64_t { Replicated, Maximal, Tuple, Other, Manual, Unknown, Unreduced };

constexpr const char* kSerialized = "sharding that begins with no \"{\", read as a serialized message";

[[noreturn]] void broken(const char* what) { throw FormatError(str(kSerialized, ": ", what), "", 1, 1); }

struct WireMessage {
  WireType type = WireType::Replicated;
  Dims dims, reshape, permutation;
  std::vector<std::int64_t> devices, last;
  bool replicate_last = false;
  std::vector<HloSharding> tuple;
};

template <class List>
void append(List& to, std::uint64_t n) {
  to.push_back(static_cast<std::int64_t>(n));
}

void take_number(WireMessage& m, WireField field, std::uint64_t n) {
  if (field == WireField::Kind) m.type = static_cast<WireType>(n);
  if (field == WireField::ReplicateLast) m.replicate_last = n != 0;
  if (field == WireField::Dimensions) append(m.dims, n);
  if (field == WireField::Devices) append(m.devices, n);
  if (field == WireField::LastDims) append(m.last, n);
  if (field == WireField::Reshape) append(m.reshape, n);
  if (field == WireField::Permutation) append(m.permutation, n);
}

bool is_list(WireField field) {
  return field == WireField::Dimensions || field == WireField::Devices || field == WireField::LastDims ||
         field == WireField::Reshape || field == WireField::Permutation;
}

HloSharding::Last last_of(std::int64_t type) {
  switch (static_cast<WireType>(type)) {
    case WireType::Replicated:
      return HloSharding::Last::Replicated;
    case WireType::Manual:
      return HloSharding::Last::Manual;
    case WireType::Unreduced:
      return HloSharding::Last::Unreduced;
    default:
      broken("it has a last dimension of another kind than replicated, manual and unreduced");
  }
}

HloSharding tiled(const WireMessage& m) {
  HloSharding s;
  s.kind = HloSharding::Kind::Tiled;
  try {
    s.tiles = m.reshape.empty() ? TileAssignment::from_list(m.dims, m.devices)
                                : TileAssignment(m.dims, m.reshape, m.permutation);
  } catch (const ValueError& e) {
    broken(e.what());
  }
  for (auto type : m.last) s.last.push_back(last_of(type));
  if (m.replicate_last) s.last.push_back(HloSharding::Last::Replicated);
  if (s.last.size() > m.dims.size()) broken("it has more last dimensions than tile dimensions");
  return s;
}

HloSharding single(const WireMessage& m) {
  HloSharding s;
  switch (m.type) {
    case WireType::Replicated:
      return s;
    case WireType::Maximal:
      if (m.devices.size() != 1 || m.devices[0] < 0) broken("it has no device");
      s.kind = HloSharding::Kind::Maximal;
      s.device = m.devices[0];
      return s;
    case WireType::Other:
      return tiled(m);
    case WireType::Manual:
      s.kind = HloSharding::Kind::Manual;
      return s;
    case WireType::Unknown:
      s.kind = HloSharding::Kind::Unknown;
      return s;
    case WireType::Unreduced:
      s.kind = HloSharding::Kind::Unreduced;
      return s;
    default:
      broken("its type is unknown");
  }
}
}  // namespace

namespace {
HloShardings message(std::string_view bytes, bool inside) {
  WireMessage m;
  protobuf::each_field(bytes, 0, kSerialized, [&](const protobuf::Field& f) {
    auto field = static_cast<WireField>(f.number);
    if (f.kind == protobuf::Kind::Fixed) broken("it has a field of a kind that OpSharding lacks");
    if (field == WireField::Tuple && f.kind == protobuf::Kind::Bytes) {
      if (inside) broken("it has a tuple in a tuple");
      m.tuple.push_back(message(f.bytes, true).parts[0]);
    } else if (is_list(field) || f.kind == protobuf::Kind::Number) {
      protobuf::each_number(f, kSerialized, [&](std::uint64_t n) { take_number(m, field, n); });
    }
  });
  HloShardings out;
  out.tuple = m.type == WireType::Tuple && !inside;
  if (out.tuple) out.parts = std::move(m.tuple);
  if (!out.tuple) out.parts.push_back(single(m));
  return out;
}
}  // namespace

HloShardings parse_serialized_hlo_shardings(std::string_view bytes) { return message(bytes, false); }

namespace {
void put(std::string& to, WireField field, std::int64_t n) {
  protobuf::put_number(to, static_cast<std::uint64_t>(field), static_cast<std::uint64_t>(n));
}
void put(std::string& to, WireField field, std::span<const std::int64_t> list) {
  protobuf::put_numbers(to, static_cast<std::uint64_t>(field), list);
}

WireType type_of(HloSharding::Kind kind) {
  switch (kind) {
    case HloSharding::Kind::Replicated:
      return WireType::Replicated;
    case HloSharding::Kind::Manual:
      return WireType::Manual;
    case HloSharding::Kind::Unreduced:
      return WireType::Unreduced;
    case HloSharding::Kind::Unknown:
      return WireType::Unknown;
    case HloSharding::Kind::Maximal:
      return WireType::Maximal;
    case HloSharding::Kind::Tiled:
      return WireType::Other;
  }
  throw InternalError(str("an HLO sharding of kind ", static_cast<int>(kind)));
}
WireType type_of(HloSharding::Last last) {
  if (last == HloSharding::Last::Manual) return WireType::Manual;
  return last == HloSharding::Last::Unreduced ? WireType::Unreduced : WireType::Replicated;
}
}  // namespace

std::string serialized(const HloSharding& s) {
  std::string out;
  put(out, WireField::Kind, static_cast<std::int64_t>(type_of(s.kind)));
  if (s.kind == HloSharding::Kind::Maximal) put(out, WireField::Devices, std::vector<std::int64_t>{s.device});
  if (s.kind != HloSharding::Kind::Tiled) return out;
  put(out, WireField::Dimensions, s.tiles->dims());
  if (s.tiles->is_iota()) {
    put(out, WireField::Reshape, s.tiles->reshape_dims());
    put(out, WireField::Permutation, s.tiles->transpose_perm());
  } else {
    put(out, WireField::Devices, s.tiles->to_list());
  }
  // The flag says of a single replicated dimension what the list would.
  if (s.last.size() == 1 && s.last[0] == HloSharding::Last::Replicated) {
    put(out, WireField::ReplicateLast, 1);
  } else {
    std::vector<std::int64_t> types;
    for (auto last : s.last) types.push_back(static_cast<std::int64_t>(type_of(last)));
    put(out, WireField::LastDims, types);
  }
  return out;
}

}  // namespace tessera::hlo
