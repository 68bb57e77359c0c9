// SPDX-License-Identifier: Apache-2.0
#include "tessera/comm_plan.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/collective/manual.h"
#include "ops/control/subgraph_structure.h"
#include "ops/control/trip_count.h"
#include "spmd/layout_change.h"
#include "spmd/spmd.h"
#include "tessera/error.h"

namespace tessera {

namespace {
thread_local std::int64_t budget_in_force = -1;
}  // namespace

std::int64_t CommPlan::bytes_per_device() const {
  std::int64_t sum = 0;
  for (const auto& s : steps_) sum += s.bytes_per_device * std::max<std::int64_t>(s.times, s.times < 0 ? 1 : 0);
  return sum;
}

std::int64_t CommPlan::count(const std::string& op) const {
  return std::count_if(steps_.begin(), steps_.end(), [&](const CommStep& s) { return s.op == op; });
}

namespace {

// What cells of these widths hold is one line; the longer ones, which steps of several causes have, go on in the next.
constexpr std::array<std::size_t, 7> kWidest{24, 24, 32, 20, 20, 48, 56};

// Lines of a cell: broken after ", " and "; ", but not inside brackets.
std::vector<std::string> lines_of(const std::string& cell, std::size_t widest) {
  std::vector<std::string> lines{""};
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= cell.size(); ++i) {
    const char c = i < cell.size() ? cell[i] : '\0';
    depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
    const bool ends =
        i == cell.size() || (c == ' ' && i > 0 && depth <= 0 && (cell[i - 1] == ',' || cell[i - 1] == ';'));
    if (!ends) continue;
    const std::string part = cell.substr(begin, i - begin);
    std::string& line = lines.back();
    if (line.empty()) {
      line = part;
    } else if (line.size() + 1 + part.size() <= widest) {
      line += ' ';
      line += part;
    } else {
      lines.push_back(part);
    }
    begin = i + 1;
  }
  return lines;
}

}  // namespace

std::string to_string(const CommPlan& plan) {
  if (plan.empty()) return "no communication\n";
  using Row = std::array<std::string, 7>;
  std::vector<Row> rows{{"collective", "axes", "value", "bytes/device", "times", "where", "why"}};
  for (const auto& s : plan.steps()) {
    const Row cells{s.op,
                    join(s.axes, ","),
                    s.value,
                    str(s.bytes_per_device),
                    s.times < 0 ? "?" : str(s.times),
                    s.loc.file ? str(s.equation, " at ", s.loc) : s.equation,
                    s.reason};
    const std::size_t first = rows.size();
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::vector<std::string> lines = lines_of(cells[c], kWidest[c]);
      rows.resize(std::max(rows.size(), first + lines.size()));
      for (std::size_t i = 0; i < lines.size(); ++i) rows[first + i][c] = lines[i];
    }
  }
  std::array<std::size_t, 7> width{};
  for (const auto& r : rows) {
    for (std::size_t c = 0; c < r.size(); ++c) width[c] = std::max(width[c], r[c].size());
  }
  std::string out;
  for (const auto& r : rows) {
    std::string line;
    for (std::size_t c = 0; c < r.size(); ++c) {
      bool number = c == 3 || c == 4;
      std::string pad(width[c] - r[c].size(), ' ');
      line += number ? pad + r[c] : r[c] + pad;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out + str("total: ", plan.bytes_per_device(), " bytes per device in ", plan.steps().size(),
                   plan.steps().size() == 1 ? " step\n" : " steps\n");
}

CommBudget::CommBudget(std::int64_t bytes_per_device, const Loc&) : before_(budget_in_force) {
  if (bytes_per_device < 0) {
    throw ValueError(str("CommBudget: bytes_per_device is ", bytes_per_device, "; expected 0 or more"));
  }
  budget_in_force = before_ < 0 ? bytes_per_device : std::min(before_, bytes_per_device);
}
CommBudget::~CommBudget() { budget_in_force = before_; }
std::int64_t CommBudget::current() { return budget_in_force; }

namespace spmd {

namespace {

// A step of one equation, but for what it is called and why it is there.
CommStep step_of(const ir::Graph& g, const ir::Eqn& e, std::int64_t times) {
  CommStep s;
  for (auto a : ops::exchange_axes(g, e)) s.axes.push_back(g.mesh->names[static_cast<std::size_t>(a)]);
  s.bytes_per_device = received(g, e);
  s.times = times;
  s.value = to_string(g.type(e.in[0]));
  s.equation = std::string(e.op->name());
  s.loc = e.loc;
  return s;
}

// As other steps of the same kind are called.
std::string word_of(ops::GroupExchange::Kind kind) {
  using Kind = ops::GroupExchange::Kind;
  if (kind == Kind::Sum || kind == Kind::Max || kind == Kind::Min) return "all_reduce";
  return kind == Kind::Ragged ? "ragged_all_to_all" : ops::to_string(kind);
}

// Shards that change owner, and collectives in groups; nothing for values that are only read in another way.
std::optional<CommStep> moved(const ir::Graph& g, const ir::Eqn& e, std::int64_t times) {
  CommStep s = step_of(g, e, times);
  // Graphs that were read as text do not know the cause.
  auto asked_for_by = [&](const std::string& cause, const char* otherwise) {
    if (!cause.empty()) s.equation = cause;
    return str("asked for by ", cause.empty() ? otherwise : cause);
  };
  if (const auto* p = ir::get_if<ops::Reinterpret>(e.attrs)) {
    if (p->source.empty()) return std::nullopt;
    s.op = "collective_permute";
    s.reason = asked_for_by(p->cause, "ppermute or pbroadcast");
  } else {
    const auto& group = ir::get<ops::GroupExchange>(e.attrs);
    s.op = word_of(group.kind);
    // A ragged exchange is one of groups also where the program named none: those along its axes.
    const bool named = group.kind != ops::GroupExchange::Kind::Ragged;
    s.reason = str(asked_for_by(group.cause, "a collective"), named ? " in groups" : "");
  }
  return s;
}

std::optional<CommStep> halo(const ir::Graph& g, const ir::Eqn& e, std::int64_t times) {
  const auto& p = ir::get<ops::Halo>(e.attrs);
  CommStep s = step_of(g, e, times);
  if (s.bytes_per_device == 0) return std::nullopt;
  s.op = "halo_exchange";
  s.equation = p.cause;
  s.reason = p.reason;
  return s;
}

std::optional<CommStep> resharded(const ir::Graph& g, const ir::Eqn& e, std::int64_t times) {
  const auto& p = ir::get<ops::Reshard>(e.attrs);
  CommStep s = step_of(g, e, times);
  if (s.bytes_per_device == 0) return std::nullopt;
  s.op = ops::to_string(p.kind);
  std::vector<std::string> values;
  for (auto v : e.in) values.push_back(to_string(g.type(v)));
  s.value = join(values, ", ");
  s.equation = p.cause;
  s.reason = p.reason;
  return s;
}

void collect(const ir::Graph& g, std::int64_t times, std::vector<CommStep>& out);

void collect_bodies(const ir::Graph& g, const ir::Eqn& e, const ops::Control& control, std::int64_t times,
                    std::vector<CommStep>& out) {
  std::int64_t rounds = control.times >= 0 ? control.times : ops::trip_count(g, e).value_or(-1);
  bool tests = e.op == &ops::def::while_;  // the first body, once more than there are rounds
  for (std::size_t b = 0; b < control.bodies.size(); ++b) {
    std::int64_t each = rounds + (tests && b == 0 ? 1 : 0);
    collect(*control.bodies[b].graph, times < 0 || rounds < 0 ? -1 : times * each, out);
  }
}

void collect(const ir::Graph& g, std::int64_t times, std::vector<CommStep>& out) {
  for (const auto& e : g.eqns) {
    if (auto control = ops::control_of(e)) {
      collect_bodies(g, e, *control, times, out);
      continue;
    }
    std::optional<CommStep> step;
    if (e.op == &ops::def::halo) step = halo(g, e, times);
    if (e.op == &ops::def::reinterpret || e.op == &ops::def::group_exchange) step = moved(g, e, times);
    if (e.op == &ops::def::reshard) step = resharded(g, e, times);
    if (step) out.push_back(*std::move(step));
  }
}

}  // namespace

CommPlan comm_plan(const ir::Graph& partitioned) {
  std::vector<CommStep> steps;
  if (partitioned.mesh) collect(partitioned, 1, steps);
  return CommPlan(std::move(steps));
}

}  // namespace spmd
}  // namespace tessera
