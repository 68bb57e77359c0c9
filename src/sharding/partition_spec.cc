// SPDX-License-Identifier: Apache-2.0
#include "tessera/partition_spec.h"

#include <algorithm>

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

namespace {

bool has(const std::vector<AxisRef>& set, const AxisRef& axis) {
  return std::find(set.begin(), set.end(), axis) != set.end();
}

// Adds `more` to a set of axes that takes none of the entries' and none of the other set's.
void add_axes(const PartitionSpec& spec, const char* argument, const char* other, const std::vector<AxisRef>& taken,
              std::vector<AxisRef>& set, std::vector<AxisRef> more) {
  for (AxisRef& a : more) {
    auto use = [&](const std::string& where) {
      throw ValueError(str("PartitionSpec: ", argument, " = {", join(more), "} names the axis ", a, ", which ", where,
                           " of ", spec, " has too; expected axes of no other use"));
    };
    for (std::size_t d = 0; d < spec.size(); ++d) {
      if (has(spec[d].axes(), a)) use(str("entry ", d));
    }
    if (has(taken, a)) use(other);
  }
  for (AxisRef& a : more) {
    if (!has(set, a)) set.push_back(std::move(a));
  }
  std::sort(set.begin(), set.end(), [](const AxisRef& a, const AxisRef& b) { return to_string(a) < to_string(b); });
}

}  // namespace

PartitionSpec PartitionSpec::with_unreduced(std::vector<AxisRef> axes, const Loc&) const {
  PartitionSpec out = *this;
  add_axes(*this, "unreduced", "reduced", reduced_, out.unreduced_, std::move(axes));
  return out;
}

PartitionSpec PartitionSpec::with_reduced(std::vector<AxisRef> axes, const Loc&) const {
  PartitionSpec out = *this;
  add_axes(*this, "reduced", "unreduced", unreduced_, out.reduced_, std::move(axes));
  return out;
}

std::string PartitionSpec::text(std::string_view name) const {
  std::vector<std::string> parts;
  for (const auto& e : entries_) parts.push_back(to_string(e));
  if (!unreduced_.empty()) parts.push_back(str("unreduced={", join(unreduced_), "}"));
  if (!reduced_.empty()) parts.push_back(str("reduced={", join(reduced_), "}"));
  return str(name, "(", join(parts), entries_.size() == 1 && parts.size() == 1 ? ",)" : ")");
}

std::size_t PartitionSpec::hash() const {
  std::size_t h = entries_.size();
  for (const auto& e : entries_) h = base::hash_mix(h, e.hash());
  if (!unreduced_.empty()) h = base::hash_mix(h, SpecEntry(unreduced_).hash() + 1);
  if (!reduced_.empty()) h = base::hash_mix(h, SpecEntry(reduced_).hash() + 2);
  return h;
}

PartitionSpec operator+(const PartitionSpec& a, const PartitionSpec& b) {
  std::vector<SpecEntry> entries = a.entries();
  entries.insert(entries.end(), b.begin(), b.end());
  return PartitionSpec(std::move(entries))
      .with_unreduced(a.unreduced())
      .with_unreduced(b.unreduced())
      .with_reduced(a.reduced())
      .with_reduced(b.reduced());
}

}  // namespace tessera
