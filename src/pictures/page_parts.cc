// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/strings.h"
#include "pictures/page.h"
#include "tessera/pictures.h"

namespace tessera {

namespace {

constexpr std::string_view kWhole = "keep the summed dimension on one device";

bool is_scalar(const CommStep& step) { return step.value.ends_with("[]"); }

}  // namespace

std::string advice(const CommStep& step) {
  if (step.reason.starts_with("asked for by ")) return {};  // the program names the collective
  std::string keep(kWhole);
  if (step.op == "all_gather") {
    return str(
        "split the operand as its reader needs it (with_sharding_constraint), or keep the dimension split through ",
        step.equation);
  }
  if (step.op == "all_reduce" && is_scalar(step)) return keep;  // nothing to split
  if (step.op == "all_reduce") {
    return keep + ", or let the result stay split (a constraint on it makes this a reduce_scatter of half the bytes)";
  }
  if (step.op == "reduce_scatter") return keep;
  if (step.op == "all_to_all") return "split producer and reader along the same dimension";
  if (step.op == "collective_permute") return "give both values the same order of devices";
  if (step.op == "halo_exchange") {
    return str("split another dimension than the one whose neighbours ", step.equation, " reads");
  }
  return {};
}

namespace pictures {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        // Control characters have no place in either format.
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

std::string grouped(std::int64_t n) {
  const std::string digits = std::to_string(n);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') out += ',';
    out += digits[i];
  }
  return out;
}

std::string short_bytes(std::int64_t n) {
  constexpr std::array<const char*, 7> kUnits{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double v = std::abs(static_cast<double>(n));
  std::size_t unit = 0;
  while (v >= 999.5 && unit + 1 < kUnits.size()) {
    v /= 1000;
    ++unit;
  }
  std::array<char, 32> text{};
  const int decimals = unit == 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
  std::snprintf(text.data(), text.size(), "%s%.*f %s", n < 0 ? "-" : "", decimals, v, kUnits[unit]);
  return text.data();
}

std::string number(double v) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", v);
  std::string out = text.data();
  if (out.ends_with(".0")) out.resize(out.size() - 2);
  return out;
}

std::int64_t total_bytes(const CommStep& step) { return step.bytes_per_device * (step.times < 0 ? 1 : step.times); }

std::string where(const CommStep& step) {
  if (step.loc.file == nullptr || step.loc.line == 0) return step.equation;
  return str(std::filesystem::path(step.loc.file).filename().string(), ":", step.loc.line);
}

std::vector<LineOfPlan> lines_of(const CommPlan& plan) {
  std::vector<LineOfPlan> out;
  std::map<std::string, std::size_t> at;
  for (std::size_t i = 0; i < plan.steps().size(); ++i) {
    const CommStep& s = plan.steps()[i];
    const bool known = s.loc.file != nullptr && s.loc.line > 0;
    const std::string key = known ? str(s.loc.file, ":", s.loc.line) : s.equation;
    const auto [found, is_new] = at.emplace(key, out.size());
    if (is_new) {
      out.push_back({where(s),
                     s.loc.scope != nullptr ? *s.loc.scope : "",
                     known ? s.loc.file : "",
                     known ? s.loc.line : 0,
                     0,
                     {}});
    }
    LineOfPlan& line = out[found->second];
    line.bytes += total_bytes(s);
    line.steps.push_back(i);
  }
  return out;
}

std::vector<std::string> quoted(const std::string& file, std::uint32_t line, std::uint32_t around) {
  constexpr std::int64_t kLongestFile = 16 << 20;
  constexpr std::size_t kLongestLine = 200;
  // A program that is not trusted may name anything: a pipe would wait for its writer.
  struct stat s {};
  if (line == 0 || ::stat(file.c_str(), &s) != 0 || !S_ISREG(s.st_mode) || s.st_size > kLongestFile) return {};
  std::ifstream in(file);
  std::vector<std::string> out;
  std::string text;
  for (std::uint32_t n = 1; n <= line + around && std::getline(in, text); ++n) {
    if (n + around < line) continue;
    if (text.size() > kLongestLine) text.resize(kLongestLine);
    out.push_back(text);
  }
  return out;
}

}  // namespace pictures
}  // namespace tessera
