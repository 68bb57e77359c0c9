// SPDX-License-Identifier: Apache-2.0
#include "tessera/partition_spec.h"

#include "base/hash.h"
#include "base/strings.h"
#include "tessera/error.h"

namespace tessera {

namespace {

std::vector<AxisRef> flat_axes(const std::vector<SpecEntry>& parts) {
  std::vector<AxisRef> out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const SpecEntry& part = parts[i];
    if (part.kind() != SpecEntry::Kind::Axes) {
      throw ValueError(str("axes: partition_spec entry ", i, " of a tuple is ", to_string(part),
                           "; expected a mesh axis (no None inside a tuple)"));
    }
    if (part.is_listed()) {
      throw ValueError(str("axes: partition_spec entry ", i, " of a tuple is ", to_string(part),
                           ", a nested tuple; expected one mesh axis"));
    }
    out.push_back(parts[i].axes()[0]);
  }
  return out;
}

}  // namespace

SpecEntry::SpecEntry(std::initializer_list<SpecEntry> axes)
    : kind_(Kind::Axes), listed_(true), axes_(flat_axes(std::vector(axes))) {}

std::size_t SpecEntry::hash() const {
  std::size_t h = static_cast<std::size_t>(kind_);
  for (const auto& a : axes_) {
    h = base::hash_mix(h, a.is_name() ? std::hash<std::string>{}(a.name()) : static_cast<std::size_t>(a.number()));
  }
  return h;
}

std::string to_string(const SpecEntry& e) {
  if (e.is_none()) return "None";
  if (e.is_unconstrained()) return "UNCONSTRAINED";
  if (e.axes().size() == 1) return to_string(e.axes()[0]);
  return str("(", join(e.axes()), ")");
}

SpecEntry axes(SpecEntry a, SpecEntry b, SpecEntry c, SpecEntry d, SpecEntry e, SpecEntry f, SpecEntry g, SpecEntry h,
               const Loc&) {
  std::vector<SpecEntry> parts;
  for (SpecEntry* p : {&a, &b, &c, &d, &e, &f, &g, &h}) {
    if (!p->absent_) parts.push_back(std::move(*p));
  }
  return SpecEntry(flat_axes(parts));
}

PartitionSpec::PartitionSpec(SpecEntry a, SpecEntry b, SpecEntry c, SpecEntry d, SpecEntry e, SpecEntry f, SpecEntry g,
                             SpecEntry h) {
  for (SpecEntry* p : {&a, &b, &c, &d, &e, &f, &g, &h}) {
    if (!p->absent_) entries_.push_back(std::move(*p));
  }
}

PartitionSpec::PartitionSpec(std::vector<SpecEntry> entries) : entries_(std::move(entries)) {}

std::int64_t PartitionSpec::index(const SpecEntry& entry, const Loc&) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i] == entry) return static_cast<std::int64_t>(i);
  }
  throw ValueError(str("PartitionSpec::index: entry = ", to_string(entry), " is not in ", text()));
}

std::string PartitionSpec::text(std::string_view name) const {
  return str(name, "(", join(entries_), entries_.size() == 1 ? ",)" : ")");
}

std::size_t PartitionSpec::hash() const {
  std::size_t h = entries_.size();
  for (const auto& e : entries_) h = base::hash_mix(h, e.hash());
  return h;
}

PartitionSpec operator+(const PartitionSpec& a, const PartitionSpec& b) {
  std::vector<SpecEntry> entries = a.entries();
  entries.insert(entries.end(), b.begin(), b.end());
  return PartitionSpec(std::move(entries));
}

}  // namespace tessera
