// SPDX-License-Identifier: Apache-2.0
#include "inputs.h"
#include "workload.h"

namespace tessera::bench {

void add_dispatch(std::vector<Workload>& list) {
  list.push_back({"dispatch_jit_1dev", [](const Settings& s) {
                    return timed(s, call(jit([](const Array& x) { return x + 1; }), ones({8})), {});
                  }});
  list.push_back({"dispatch_jit_alldev", [](const Settings& s) {
                    Array x = put({s.devices}, mesh1(s.devices), P("x"));
                    return timed(s, call(jit([](const Array& v) { return v + 1; }), x), {});
                  }});
  list.push_back({"dispatch_eager_alldev", [](const Settings& s) {
                    Array x = put({s.devices}, mesh1(s.devices), P("x"));
                    return timed(s, call([](const Array& a) { return a + a; }, x), {});
                  }});
  list.push_back({"dispatch_jit_100args_alldev", [](const Settings& s) {
                    std::vector<Array> xs;
                    for (std::uint64_t i = 0; i < 100; ++i) xs.push_back(put({s.devices}, mesh1(s.devices), P("x"), i));
                    auto f = jit([](const std::vector<Array>& v) {
                      std::vector<Array> out;
                      out.reserve(v.size());
                      for (const Array& x : v) out.push_back(x + 1);
                      return out;
                    });
                    return timed(s, call(f, xs), {});
                  }});
}

}  // namespace tessera::bench
