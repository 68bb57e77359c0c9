// SPDX-License-Identifier: Apache-2.0
#include "hlo/text/locations.h"

#include <utility>

#include "tessera/error.h"

namespace tessera::hlo {

namespace {
bool is_of_jax(const SourceLine& line) { return line.file.find("/jax/_src/") != std::string::npos; }
}  // namespace

const SourceLine* Locations::find(Raw location) {
  if (location.begin == location.end) return nullptr;
  auto text = source_.text().substr(location.begin, location.end - location.begin);
  auto [it, is_new] = known_.try_emplace(text);
  if (is_new) {
    Found found;
    try {
      Parser p(source_, location);
      found = read(p);
    } catch (const FormatError&) {
      found.reset();
    }
    // Reading may have added others: `it` need not hold any more.
    it = known_.insert_or_assign(text, std::move(found)).first;
  }
  return it->second ? &*it->second : nullptr;
}

Locations::Found Locations::read(Parser& p) {
  if (depth_ >= kMaxDepth) p.fail("locations are nested too deeply");
  ++depth_;
  struct Leave {
    int& depth;
    ~Leave() { --depth; }
  } leave{depth_};
  if (p.peek("#")) return alias(p);
  if (p.peek("\"")) return quoted_location(p);
  if (p.accept("callsite")) return call(p);
  if (p.accept("fused")) return fused(p);
  if (p.accept("loc")) {
    p.expect("(");
    Found found = read(p);
    p.expect(")");
    return found;
  }
  p.expect("unknown");
  return std::nullopt;
}

Locations::Found Locations::alias(Parser& p) {
  Offset begin = p.position();
  p.expect("#");
  std::size_t length = p.word().size() + 1;
  auto it = module_.locations.find(source_.text().substr(begin, length));
  if (it == module_.locations.end()) return std::nullopt;
  const SourceLine* found = find(it->second);
  return found != nullptr ? Found(*found) : std::nullopt;
}

// "file":12:3, and on to another place; or a name, with the location of what has it.
Locations::Found Locations::quoted_location(Parser& p) {
  std::string text = p.string();
  if (p.accept("(")) {
    Found found = read(p);
    p.expect(")");
    return found;
  }
  if (!p.accept(":")) return std::nullopt;
  SourceLine out{std::move(text), static_cast<std::uint32_t>(p.integer())};
  if (p.accept(":")) p.integer();
  if (p.accept("to")) {
    while (p.accept(":") || p.at_integer()) {
      if (p.at_integer()) p.integer();
    }
  }
  if (out.file.empty() || out.line == 0) return std::nullopt;
  return out;
}

Locations::Found Locations::call(Parser& p) {
  p.expect("(");
  Found callee = read(p);
  p.expect("at");
  Found caller = read(p);
  p.expect(")");
  bool of_user = callee && !is_of_jax(*callee);
  return of_user || !caller ? callee : caller;
}

Locations::Found Locations::fused(Parser& p) {
  if (p.peek("<")) p.balanced('<', '>');
  p.expect("[");
  Found out;
  while (!p.accept("]")) {
    Found one = read(p);
    if (!out || (one && is_of_jax(*out))) out = std::move(one);
    if (!p.accept(",") && !p.peek("]")) p.fail("expected \",\" or \"]\" between locations");
  }
  return out;
}

}  // namespace tessera::hlo
