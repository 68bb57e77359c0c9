// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"

namespace tessera::oracle {

namespace {

BitOrder order(const Params& p) { return p.text("bitorder", "big") == "little" ? BitOrder::Little : BitOrder::Big; }
PutMode mode(const Params& p) {
  if (!p.has("mode")) return PutMode::FromEnd;
  return p.text("mode") == "clip" ? PutMode::Clip : PutMode::Wrap;
}

}  // namespace

void add_packing(Table& t) {
  t["jnp.packbits"] =
      one([](const Arrays& a, const Params& p) { return packbits(a[0], p.maybe_integer("axis"), order(p)); });
  t["jnp.unpackbits"] = one([](const Arrays& a, const Params& p) {
    return unpackbits(a[0], p.maybe_integer("axis"), p.maybe_integer("count"), order(p));
  });
  t["jnp.place"] = one([](const Arrays& a, const Params&) { return place(a[0], a[1], a[2]); });
  t["jnp.put"] = one([](const Arrays& a, const Params& p) { return put(a[0], a[1], a[2], mode(p)); });
}

}  // namespace tessera::oracle
