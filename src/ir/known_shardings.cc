// SPDX-License-Identifier: Apache-2.0
#include "ir/known_shardings.h"

#include "base/hash.h"
#include "base/thread_own.h"

namespace tessera::ir {

namespace {
struct KnownShardingsTag;

std::int64_t address(const void* p) { return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(p)); }
}  // namespace

KnownShardings& KnownShardings::of_thread() { return base::thread_own<KnownShardings, KnownShardingsTag>(); }

bool KnownShardings::keeps(const OpDef& op, const Attrs& attrs) {
  const Traits& t = op.traits();
  const bool plain = t.linearity != Linearity::None || t.view || t.exact || t.reduction.has_value();
  return plain && !t.effect && op.subgraphs(attrs).empty();
}

// The row of the table; `question_` becomes all but the attributes and the mesh.
KnownShardings::Row& KnownShardings::ask(const PlaceArgs& args, const Attrs& attrs) {
  std::size_t size = 3;
  for (const auto& t : args.in) size += 3 + t.shape.size();
  question_.resize(size);
  std::uint64_t h = hash_of(attrs);
  auto next = question_.begin();
  auto put = [&](std::int64_t v) {
    h = (h ^ static_cast<std::uint64_t>(v)) * 0x9E3779B97F4A7C15ULL;
    *next++ = v;
  };
  put(address(&args.op));
  put(static_cast<std::int64_t>(args.typing));
  put(static_cast<std::int64_t>(args.open));
  for (const auto& t : args.in) {
    put(address(t.sharding));
    put(static_cast<std::int64_t>(t.dtype) * 2 + (t.weak ? 1 : 0));
    put(t.rank());
    for (auto extent : t.shape) put(extent);
  }
  return rows_[base::hash_mix(0, h) % kRows];
}

bool KnownShardings::answer(const Row& row, const PlaceArgs& args, const Attrs& attrs, Types& out) const {
  for (const Entry* e : {&row.last, &row.before}) {
    if (e->question != question_ || !equal(e->attrs, attrs) || !(e->mesh == args.mesh)) continue;
    for (std::size_t k = 0; k < out.size(); ++k) out[k].sharding = e->out[k];
    return true;
  }
  return false;
}

void KnownShardings::keep(Row& row, const std::vector<std::int64_t>& question, const PlaceArgs& args,
                          const Attrs& attrs, const Types& out) {
  Entry e{question, attrs, args.mesh, {}};
  for (const auto& t : out) e.out.push_back(t.sharding);
  row.before = std::move(row.last);
  row.last = std::move(e);
}

}  // namespace tessera::ir
