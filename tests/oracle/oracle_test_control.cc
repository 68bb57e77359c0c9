// SPDX-License-Identifier: Apache-2.0
// The programs of tools/oracle/programs.py over control flow, transformations and vectorised maps.
#include "oracle/table.h"
#include "tessera/control.h"
#include "tessera/grad.h"
#include "tessera/numpy.h"
#include "tessera/random.h"
#include "tessera/vmap.h"

namespace tessera::oracle {

namespace {

using Pair = std::pair<Array, Array>;

Arrays both(const Pair& p) { return {p.first, p.second}; }
Shape tail(const Array& x) { return Shape(x.shape().begin() + 1, x.shape().end()); }
Array zero(const Array& like) { return zeros({}, like.dtype()); }
Array one_of(const Array& like) { return ones({}, like.dtype()); }

Array collatz(const Array& n) {
  return while_loop(
             [](const Pair& c) { return c.first != 1; },
             [](const Pair& c) {
               return Pair{where(remainder(c.first, 2) == 0, floor_divide(c.first, 2), 3 * c.first + 1), c.second + 1};
             },
             Pair{n, Array(0)})
      .second;
}

void add_branches(Table& t) {
  t["program.cond_branch"] = one([](const Arrays& a, const Params&) {
    return cond(
        a[0], [](const Array& v) { return sin(v) * 2; }, [](const Array& v) { return v * v; }, a[1]);
  });
  t["program.cond_closure"] = one([](const Arrays& a, const Params&) {
    return cond(
        a[0], [&] { return a[1] * a[2]; }, [&] { return a[1] - a[2]; });
  });
  t["program.switch_branch"] = one([](const Arrays& a, const Params&) {
    using Branch = std::function<Array(const Array&)>;
    return switch_(a[0],
                   std::vector<Branch>{[](const Array& v) { return v + 1; }, [](const Array& v) { return v * 3; },
                                       [](const Array& v) { return exp(v); }},
                   a[1]);
  });
}

void add_loops(Table& t) {
  t["program.while_double"] = [](const Arrays& a, const Params&) {
    return both(while_loop([&](const Pair& c) { return sum(c.first) < a[1]; },
                           [](const Pair& c) {
                             return Pair{c.first * 2, c.second + 1};
                           },
                           Pair{a[0], Array(0)}));
  };
  t["program.while_jvp"] = one([](const Arrays& a, const Params&) {
    return while_loop([](const Pair& c) { return c.second < 4; },
                      [](const Pair& c) {
                        return Pair{sin(c.first) + c.first, c.second + 1};
                      },
                      Pair{a[0], Array(0)})
        .first;
  });
  t["program.collatz"] = one([](const Arrays& a, const Params&) { return collatz(a[0]); });
  t["program.fori_power"] = one([](const Arrays& a, const Params&) {
    return fori_loop(
        std::int64_t{0}, std::int64_t{5}, [](const Array& i, const Array& v) { return v * 1.1 + sin(v) * i; }, a[0]);
  });
  t["program.fori_dynamic"] = one([](const Arrays& a, const Params&) {
    return fori_loop(
        Array(HostArray::scalar(std::int32_t{0})), a[0],
        [&](const Array& i, const Array& v) { return v + take(a[1], i, 0) * v; }, one_of(a[1]));
  });
}

void add_scans(Table& t) {
  t["program.scan_cumulative"] = [](const Arrays& a, const Params&) {
    return both(scan(
        [](const Array& c, const Array& v) {
          return Pair{c + v, c * v};
        },
        zeros(tail(a[0]), a[0].dtype()), a[0]));
  };
  t["program.scan_reverse"] = [](const Arrays& a, const Params&) {
    return both(scan(
        [](const Array& c, const Array& v) {
          return Pair{c * 0.5 + v, c - v};
        },
        ones(tail(a[0]), a[0].dtype()), a[0], true));
  };
  t["program.scan_rnn"] = [](const Arrays& a, const Params&) {
    return both(scan(
        [&](const Array& h, const Array& v) {
          Array next = tanh(matmul(h, a[0]) + v);
          return Pair{next, sum(next)};
        },
        a[1], a[2]));
  };
  t["program.scan_length"] = [](const Arrays& a, const Params&) {
    return both(scan(
        [](const Array& c, std::monostate) {
          return Pair{c * c - 0.5, c};
        },
        a[0], std::monostate{}, false, 6));
  };
  t["program.scan_two"] = [](const Arrays& a, const Params&) {
    auto [carry, ys] = scan(
        [](const Pair& c, const Pair& v) {
          return std::pair{Pair{c.first + v.first * v.second, c.second * 0.9 + v.second}, c.first * c.second};
        },
        Pair{zero(a[0]), one_of(a[0])}, Pair{a[0], a[1]});
    return Arrays{carry.first, carry.second, ys};
  };
  t["program.scan_nested"] = [](const Arrays& a, const Params&) {
    auto outer = [](const Array& c, const Array& row) {
      Array inner = scan([](const Array& d, const Array& v) { return Pair{sin(d) + v, d}; }, c, row).first;
      return Pair{inner, inner * c};
    };
    return both(scan(outer, zero(a[0]), a[0]));
  };
  t["program.scan_cond"] = [](const Arrays& a, const Params&) {
    auto step = [](const Array& c, const Array& v) {
      return Pair{cond(
                      v > 0, [&] { return c + v; }, [&] { return c * 0.5; }),
                  c};
    };
    return both(scan(step, one_of(a[0]), a[0]));
  };
  t["program.scan_normal"] = [](const Arrays& a, const Params&) {
    auto step = [](const Array& k, std::monostate) {
      const auto keys = random::split_keys(k);
      return Pair{keys[0], random::normal(keys[1], {2})};
    };
    return both(scan(step, a[0], std::monostate{}, false, 3));
  };
  t["program.map_rows"] = one([](const Arrays& a, const Params&) {
    return map([](const Array& r) { return sum(r * r) + take(r, 0, 0); }, a[0]);
  });
}

void add_associative(Table& t) {
  t["program.associative_sum"] = one([](const Arrays& a, const Params&) {
    return associative_scan([](const Array& p, const Array& q) { return p + q; }, a[0]);
  });
  t["program.associative_product_reverse"] = one([](const Arrays& a, const Params&) {
    return associative_scan([](const Array& p, const Array& q) { return p * q; }, a[0], true);
  });
  t["program.associative_max_axis1"] = one([](const Arrays& a, const Params&) {
    return associative_scan([](const Array& p, const Array& q) { return maximum(p, q); }, a[0], false, 1);
  });
  t["program.associative_affine"] = [](const Arrays& a, const Params&) {
    return both(associative_scan(
        [](const Pair& p, const Pair& q) {
          return Pair{p.first * q.first, q.first * p.second + q.second};
        },
        Pair{a[0], a[1]}));
  };
  t["program.associative_matmul"] = one([](const Arrays& a, const Params&) {
    return associative_scan([](const Array& p, const Array& q) { return matmul(p, q); }, a[0]);
  });
}

void add_transformations(Table& t) {
  t["program.custom_stop"] = one([](const Arrays& a, const Params&) { return a[0] * stop_gradient(sin(a[0])); });
  t["program.checkpoint_block"] = one(
      [](const Arrays& a, const Params&) { return checkpoint([](const Array& v) { return sin(sin(v)) * v; })(a[0]); });
  const auto f = [](const Array& v) { return sin(v) * sum(v); };
  t["program.jacobian_rev"] = one([f](const Arrays& a, const Params&) { return jacrev(f)(a[0]); });
  t["program.jacobian_fwd"] = one([f](const Arrays& a, const Params&) { return jacfwd(f)(a[0]); });
  t["program.hessian"] = one([](const Arrays& a, const Params&) {
    return hessian([](const Array& v) { return sum(power(v, 3)) + prod(v); })(a[0]);
  });
}

void add_vmaps(Table& t) {
  t["program.vmap_scan"] = [](const Arrays& a, const Params&) {
    auto row = [](const Array& r) {
      return scan([](const Array& c, const Array& v) { return Pair{c + v * v, c}; }, zero(r), r);
    };
    return both(vmap(row)(a[0]));
  };
  t["program.vmap_cond"] = one([](const Arrays& a, const Params&) {
    auto choose = [](const Array& p, const Array& v) {
      return cond(
          p, [](const Array& x) { return sin(x); }, [](const Array& x) { return cos(x); }, v);
    };
    return vmap(choose)(a[0], a[1]);
  });
  t["program.vmap_while"] = one([](const Arrays& a, const Params&) { return vmap(collatz)(a[0]); });
  t["program.vmap_uniform"] = one([](const Arrays& a, const Params&) {
    return vmap([](const Array& k) { return random::uniform(k, {3}); })(random::split(a[0], 4));
  });
}

}  // namespace

void add_control(Table& t) {
  add_branches(t);
  add_loops(t);
  add_scans(t);
  add_associative(t);
  add_transformations(t);
  add_vmaps(t);
}

}  // namespace tessera::oracle
