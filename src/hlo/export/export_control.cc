// SPDX-License-Identifier: Apache-2.0
// Control flow and calls.
#include "base/strings.h"
#include "hlo/export/export.h"
#include "ops/control/calls.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Type;
using ir::Types;

Texts cond(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Cond>(e.attrs);
  Texts operands(in.begin() + 1, in.end());
  auto branch = [&](const ir::GraphPtr& g) {
    return w.region({}, [&](const Texts&) { return w.inline_graph(*g, operands); });
  };
  if (is_bool(in[0].type.dtype)) {
    std::string yes = branch(p.branches[1]), no = branch(p.branches[0]);
    return w.generic("stablehlo.if", {in[0]}, out, "", str(yes, ", ", no));
  }
  Text last = w.constant(static_cast<double>(p.branches.size()) - 1, in[0].type.dtype);
  Text which = w.op("stablehlo.clamp", {w.constant(0, in[0].type.dtype), in[0], last}, in[0].type);
  which = w.convert(which, DType::I32);
  std::vector<std::string> texts;
  for (const auto& g : p.branches) texts.push_back(branch(g));
  return w.generic("stablehlo.case", {which}, out, "", join(texts));
}

Texts while_loop(Writer& w, const Eqn& e, const Texts& in, const Types&) {
  const auto& p = ir::get<ops::While>(e.attrs);
  auto c = static_cast<std::ptrdiff_t>(p.cond_consts), b = static_cast<std::ptrdiff_t>(p.body_consts);
  Texts cond_consts(in.begin(), in.begin() + c), body_consts(in.begin() + c, in.begin() + c + b);
  Texts carry(in.begin() + c + b, in.end());
  auto with = [&](const ir::Graph& g, Texts args, const Texts& a) {
    args.insert(args.end(), a.begin(), a.end());
    return w.inline_graph(g, args);
  };
  return w.while_loop(
      carry, [&](const Texts& a) { return with(*p.cond, cond_consts, a)[0]; },
      [&](const Texts& a) { return with(*p.body, body_consts, a); });
}

// A loop that counts, reads a row of each stacked input and writes one of each stacked output.
class ScanLoop {
 public:
  ScanLoop(Writer& w, const ops::Scan& p, const Texts& in, const Types& out) : w_(w), p_(p), out_(out) {
    auto consts = static_cast<std::ptrdiff_t>(p.num_consts), carry = static_cast<std::ptrdiff_t>(p.num_carry);
    consts_.assign(in.begin(), in.begin() + consts);
    carry_.assign(in.begin() + consts, in.begin() + consts + carry);
    xs_.assign(in.begin() + consts + carry, in.end());
  }
  Texts run() {
    // A loop that never runs is not written: its body would slice rows out of arrays that have none.
    if (p_.length == 0) {
      Texts results = carry_;
      for (std::size_t i = carry_.size(); i < out_.size(); ++i) {
        results.push_back(w_.constant(0, out_[i].dtype, out_[i].shape));
      }
      return results;
    }
    Texts start{w_.constant(0, DType::I32)};
    start.insert(start.end(), carry_.begin(), carry_.end());
    for (std::size_t i = carry_.size(); i < out_.size(); ++i) {
      start.push_back(w_.constant(0, out_[i].dtype, out_[i].shape));
    }
    Texts results = w_.while_loop(
        start,
        [&](const Texts& a) { return w_.compare(a[0], w_.constant(static_cast<double>(p_.length), DType::I32), "LT"); },
        [&](const Texts& a) { return step(a); });
    results.erase(results.begin());
    return results;
  }

 private:
  void add_starts(Texts& to, const Text& row, std::size_t rank) {
    to.push_back(row);
    for (std::size_t d = 1; d < rank; ++d) to.push_back(w_.constant(0, DType::I32));
  }
  Texts step(const Texts& a) {
    Text row = a[0];
    if (p_.reverse) {
      Text last = w_.constant(static_cast<double>(p_.length) - 1, DType::I32);
      row = w_.op("stablehlo.subtract", {last, row}, row.type);
    }
    Texts args = consts_;
    args.insert(args.end(), a.begin() + 1, a.begin() + 1 + static_cast<std::ptrdiff_t>(carry_.size()));
    for (const auto& x : xs_) {
      Type one = x.type;
      one.shape[0] = 1;
      Texts operands{x};
      add_starts(operands, row, one.shape.size());
      Text shard = w_.line(str("stablehlo.dynamic_slice ", names_of(operands), ", sizes = [", join(one.shape),
                               "] : ", signature(operands, {one})),
                           one);
      args.push_back(w_.reshape(shard, Shape(one.shape.begin() + 1, one.shape.end())));
    }
    Texts results = w_.inline_graph(*p_.body, args);
    Texts out{w_.op("stablehlo.add", {a[0], w_.constant(1, DType::I32)}, a[0].type)};
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (i < carry_.size()) {
        out.push_back(results[i]);
        continue;
      }
      Shape one = results[i].type.shape;
      one.insert(one.begin(), 1);
      Texts operands{a[i + 1], w_.reshape(results[i], one)};
      add_starts(operands, row, one.size());
      out.push_back(w_.op("stablehlo.dynamic_update_slice", operands, a[i + 1].type));
    }
    return out;
  }

  Writer& w_;
  const ops::Scan& p_;
  const Types& out_;
  Texts consts_, carry_, xs_;
};
Texts scan(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return ScanLoop(w, ir::get<ops::Scan>(e.attrs), in, out).run();
}

Texts call(Writer& w, const Eqn& e, const Texts& in, const Types&) {
  const auto& p = ir::get<ops::Call>(e.attrs);
  return w.call(p.body, p.name.empty() ? std::string(e.op->name()) : p.name, in);
}
}  // namespace

void add_control_writers(WriterTable& t) {
  t[&def::cond] = cond;
  t[&def::while_] = while_loop;
  t[&def::scan] = scan;
  t[&def::checkpoint] = call;
  t[&def::custom_jvp_call] = call;
  t[&def::custom_vjp_call] = call;
}

}  // namespace tessera::hlo
