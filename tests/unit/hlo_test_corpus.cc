// SPDX-License-Identifier: Apache-2.0
// Modules that JAX lowered, with what JAX computed (tools/hlo/record.py): read, run and compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/strings.h"
#include "tessera/device.h"
#include "tessera/io.h"
#include "tessera/stablehlo.h"
#include "tests/support/paths.h"
#include "tests/support/series.h"

namespace tessera {
namespace {

struct Recorded {
  std::string program;
  std::map<int, HostArray> args, outs;
  double tolerance = 0;
};

// "<case>/arg0" and so on, by case.
std::map<std::string, Recorded> recorded(const std::string& path) {
  std::map<std::string, Recorded> out;
  for (auto& [key, value] : load_npz(path)) {
    auto slash = key.rfind('/');
    Recorded& r = out[key.substr(0, slash)];
    std::string what = key.substr(slash + 1);
    if (what == "program") {
      r.program.assign(static_cast<const char*>(value.data()), static_cast<std::size_t>(value.size()));
    } else if (what == "tolerance") {
      r.tolerance = value.span<double>()[0];
    } else {
      (what[0] == 'a' ? r.args : r.outs)[std::stoi(what.substr(3))] = value;
    }
  }
  return out;
}

bool near(double got, double want, double tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  return got == want || std::abs(got - want) <= tolerance + tolerance * std::abs(want);
}

// Where the two differ, or "".
std::string difference(const HostArray& got, const HostArray& want, double tolerance) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
    return str(dtype_name(got.dtype()), got.shape(), " instead of ", dtype_name(want.dtype()), want.shape());
  }
  if (!is_inexact(want.dtype())) return identical(got, want) ? "" : "elements differ";
  HostArray g = got.astype(DType::C128), w = want.astype(DType::C128);
  auto gs = g.span<complex128_t>();
  auto ws = w.span<complex128_t>();
  for (std::size_t i = 0; i < ws.size(); ++i) {
    // The parts of a complex number are compared against its size.
    double scale = is_complex(want.dtype()) ? std::max(1.0, std::abs(ws[i])) : 1.0;
    if (!std::isfinite(scale)) scale = 1.0;
    if (!near(gs[i].real(), ws[i].real(), tolerance * scale) || !near(gs[i].imag(), ws[i].imag(), tolerance * scale)) {
      return str("element ", i, " is ", gs[i].real(), " ", gs[i].imag(), "i instead of ", ws[i].real(), " ",
                 ws[i].imag(), "i");
    }
  }
  return "";
}

std::string run_case(const Recorded& r, const std::string& name) {
  try {
    StablehloProgram program = StablehloProgram::parse(r.program, name);
    ClientScope scope(Client::cpu({.devices = program.num_devices()}));
    std::vector<HostArray> args;
    for (const auto& [i, a] : r.args) {
      const auto& port = program.inputs().at(static_cast<std::size_t>(i));
      args.push_back(port.narrow || port.dtype == DType::BF16 ? a.astype(port.dtype) : a);
    }
    auto outs = program.run(args);
    if (outs.size() != r.outs.size()) return str(outs.size(), " results instead of ", r.outs.size());
    for (const auto& [i, want] : r.outs) {
      HostArray got = outs[static_cast<std::size_t>(i)];
      if (got.dtype() == DType::BF16) got = got.astype(DType::F32);
      std::string d = difference(got, want, r.tolerance);
      if (!d.empty()) return str("out", i, ": ", d);
    }
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

class HloCorpus : public testing::TestWithParam<std::string> {};

TEST_P(HloCorpus, GivesTheValuesOfJax) {
  auto cases = recorded(test::source_path("tests/hlo/" + GetParam() + ".npz"));
  ASSERT_FALSE(cases.empty());
  int number = 0;
  for (const auto& [name, r] : cases) {
    if (number++ % test::case_stride() != 0) continue;
    EXPECT_EQ(run_case(r, name), "") << name;
  }
}

std::vector<std::string> families() {
  std::vector<std::string> out;
  for (const auto& f : std::filesystem::directory_iterator(test::source_path("tests/hlo"))) {
    if (f.path().extension() == ".npz") out.push_back(f.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}
INSTANTIATE_TEST_SUITE_P(Families, HloCorpus, testing::ValuesIn(families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera
