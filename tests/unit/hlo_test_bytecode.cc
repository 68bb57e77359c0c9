// SPDX-License-Identifier: Apache-2.0
// Portable artifacts that jaxlib wrote (tools/hlo/record_bytecode.py), read and compared with the text of the same
// programs; locations; and what must be refused.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "hlo/bytecode/bytecode.h"
#include "hlo/module.h"
#include "ir/op_def.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/io.h"
#include "tessera/stablehlo.h"
#include "tests/support/paths.h"
#include "tests/support/series.h"

namespace tessera {
namespace {

std::string bytes_of(const HostArray& a) {
  return {static_cast<const char*>(a.data()), static_cast<std::size_t>(a.size())};
}
const std::map<std::string, std::string>& recorded() {
  static const auto* all = [] {
    auto* out = new std::map<std::string, std::string>;
    for (const auto& [key, value] : load_npz(test::source_path("tests/hlo/bytecode/artifacts.npz"))) {
      (*out)[key] = bytes_of(value);
    }
    return out;
  }();
  return *all;
}

TEST(HloBytecode, ArtifactsAreTheirText) {
  int compared = 0;
  for (const auto& [key, artifact] : recorded()) {
    if (!hlo::is_bytecode(artifact)) continue;
    std::string name = key.substr(0, key.find('/')) + "/text", version = key.substr(key.find('/') + 1);
    auto own = recorded().find(name + "-" + version);
    const std::string& text = own == recorded().end() ? recorded().at(name) : own->second;
    EXPECT_EQ(StablehloProgram::parse(artifact).as_text(), StablehloProgram::parse(text).as_text()) << key;
    ++compared;
  }
  EXPECT_GT(compared, 80);
}

TEST(HloBytecode, TruncatedExportsAreNamed) {
  const std::string& file = recorded().at("exported/file");
  for (std::size_t n = 4; n < file.size(); n += n < 300 ? 1 : 97) {
    std::string said;
    try {
      hlo::import_module(file.substr(0, n));
    } catch (const FormatError& e) {
      said = e.what();
    }
    if (hlo::is_exported(file.substr(0, n))) continue;  // only what follows the program is missing
    EXPECT_NE(said.find("looks like one of jax.export, truncated at byte " + std::to_string(n)), std::string::npos)
        << n << ": " << said;
  }
  for (const char* text : {"module {}", "<html>", "", "    "}) {
    std::string said;
    try {
      hlo::import_module(text);
    } catch (const FormatError& e) {
      said = e.what();
    }
    EXPECT_EQ(said.find("jax.export"), std::string::npos) << said;
  }
}

TEST(HloBytecode, ExportedFunctionRuns) {
  const std::string& file = recorded().at("exported/file");
  EXPECT_TRUE(hlo::is_exported(file));
  EXPECT_FALSE(hlo::is_bytecode(file));
  EXPECT_FALSE(hlo::is_exported("module {}"));
  EXPECT_FALSE(hlo::is_exported(""));
  ClientScope scope(Client::cpu({.devices = 1}));
  auto program = StablehloProgram::parse(file);
  ASSERT_EQ(program.inputs().size(), 3U);
  HostArray x(DType::F32, {2, 3}), w(DType::F32, {3, 4}), b(DType::F32, {4});
  for (auto* a : {&x, &w, &b}) {
    for (auto& v : a->span<float>()) v = 0.5F;
  }
  HostArray out = program.run({x, w, b})[0];
  EXPECT_EQ(out.shape(), (Shape{2, 4}));
  EXPECT_NEAR(out.span<float>()[0], 2 * std::tanh(0.75) + 0.5, 1e-6);
}

// The lines of tools/hlo/record_bytecode.py's model.
TEST(HloBytecode, EquationsComeFromTheUsersLines) {
  ir::Module m = hlo::import_module(recorded().at("exported/file"));
  std::map<std::string, std::string> lines;
  for (const auto& e : m.graph->eqns) lines[std::string(e.op->name())] = to_string(e.loc);
  EXPECT_EQ(lines["dot_general"], "model.py:2");
  EXPECT_EQ(lines["tanh"], "model.py:2");
  EXPECT_EQ(lines["mul"], "model.py:7");
  EXPECT_EQ(lines["add"], "model.py:7");
}

std::string line_of_first(const std::string& location, const std::string& aliases = "") {
  std::string text =
      "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.sine %a : tensor<2xf32> " + location +
      "\n  return %0 : tensor<2xf32>\n}\n" + aliases;
  return to_string(hlo::import_module(text, {.name = "here.mlir"}).graph->eqns[0].loc);
}

TEST(HloBytecode, LocationsInText) {
  EXPECT_EQ(line_of_first(""), "here.mlir:2");
  EXPECT_EQ(line_of_first("loc(unknown)"), "here.mlir:2");
  EXPECT_EQ(line_of_first("loc(\"only a name\")"), "here.mlir:2");
  EXPECT_EQ(line_of_first("loc(\"m.py\":7:3)"), "m.py:7");
  EXPECT_EQ(line_of_first("loc(\"m.py\":7:3 to :9)"), "m.py:7");
  EXPECT_EQ(line_of_first("loc(\"m.py\":7:3 to 8:9)"), "m.py:7");
  EXPECT_EQ(line_of_first("loc(\"name\"(\"m.py\":7:3 to 8:9))"), "m.py:7");
  EXPECT_EQ(line_of_first("loc(callsite(\"inner.py\":1:1 at \"outer.py\":2:1))"), "inner.py:1");
  EXPECT_EQ(line_of_first("loc(callsite(\"x/jax/_src/numpy/lax.py\":1:1 at \"outer.py\":2:1))"), "outer.py:2");
  EXPECT_EQ(line_of_first("loc(fused<\"why\">[unknown, \"m.py\":3:1])"), "m.py:3");
  EXPECT_EQ(line_of_first("loc(#loc3)", "#loc1 = loc(\"m.py\":4:1)\n#loc3 = loc(\"f\"(#loc1))\n"), "m.py:4");
  // What says nothing that can be used is no fault of the program.
  EXPECT_EQ(line_of_first("loc(#loc3)"), "here.mlir:2");
  EXPECT_EQ(line_of_first("loc(#loc1)", "#loc1 = loc(\"f\"(#loc1))\n"), "here.mlir:2");
  EXPECT_EQ(line_of_first("loc(something <else>)"), "here.mlir:2");
}

TEST(HloBytecode, ErrorsNameTheUsersLine) {
  try {
    hlo::import_module(
        "func.func @main(%a: tensor<2xf32>) -> tensor<3xf32> {\n"
        "  %0 = stablehlo.reshape %a : (tensor<2xf32>) -> tensor<3xf32> loc(\"model.py\":12:3)\n"
        "  return %0 : tensor<3xf32>\n}");
    FAIL();
  } catch (const FormatError& e) {
    EXPECT_NE(std::string(e.what()).find("(model.py:12)"), std::string::npos) << e.what();
    EXPECT_EQ(e.line(), 2);
  }
}

TEST(HloBytecode, ConstantsAreBytes) {
  std::string text = hlo::text_of_bytecode(recorded().at("shapes.const_big/1.17.0"));
  EXPECT_NE(text.find("dense<\"0x"), std::string::npos);
  EXPECT_LT(text.size(), 2 * recorded().at("shapes.const_big/1.17.0").size() + 4000);
}

std::string refusal(const std::string& bytes) {
  try {
    hlo::text_of_bytecode(bytes, "file");
  } catch (const FormatError& e) {
    return e.what();
  }
  return "";
}

TEST(HloBytecode, WhatIsCutOffIsRefused) {
  const std::string& whole = recorded().at("indexing.apply/1.17.0");
  EXPECT_EQ(refusal(whole), "");
  auto step = static_cast<std::size_t>(test::case_stride());
  for (std::size_t n = 0; n < whole.size(); n += step) {
    EXPECT_TRUE(refusal(whole.substr(0, n)).starts_with("file: byte ")) << n;
  }
  EXPECT_NE(refusal(whole + '\0'), "");
}

TEST(HloBytecode, ForeignVersionsAndOperationsAreNamed) {
  std::string newer = recorded().at("shapes.pad/1.17.0");
  newer[4] = static_cast<char>(2 * 7 + 1);
  EXPECT_EQ(refusal(newer), "file: byte 5: bytecode of version 7; versions up to 6 are read");
  std::string other = recorded().at("shapes.pad/1.17.0");
  other.replace(other.find("pad_v1"), 6, "pad_v9");
  EXPECT_NE(refusal(other).find("the operation \"vhlo.pad_v9\" is not read (written by StableHLO_v1.17.0)"),
            std::string::npos)
      << refusal(other);
  EXPECT_EQ(refusal("module {}"), "file: byte 0: this is no MLIR bytecode");
}

std::string section_of(int id, const std::string& data) {
  std::size_t size = data.size() * 4 + 2;  // a number of two bytes
  std::string out{static_cast<char>(id), static_cast<char>(size), static_cast<char>(size >> 8)};
  return out + data;
}

// Attribute i + 1 is a list of attribute i twice: a hundred bytes that would be 2^30 characters.
TEST(HloBytecode, TextIsBounded) {
  std::string bytes = "ML\xefR\x0dx";
  bytes += '\0';
  auto one = [](int v) { return std::string(1, static_cast<char>(2 * v + 1)); };
  bytes += section_of(0, one(2) + one(7) + one(8) + std::string("builtin\0module\0", 15));
  bytes += section_of(1, one(1) + one(0) + one(1) + one(0) + one(1) + one(1 * 2 + 1));
  std::string attributes = one(15), offsets;  // 0: an unknown location
  constexpr int kLists = 40;
  for (int i = 1; i <= kLists; ++i) attributes += one(0) + one(2) + one(i - 1) + one(i - 1);
  attributes += one(1) + one(1) + one(kLists + 2) + one(kLists);  // a dictionary
  attributes += one(2) + one(0);                                  // its name
  offsets = one(kLists + 3) + one(0) + one(0) + one(kLists + 3) + one(1 * 2 + 1);
  for (int i = 0; i < kLists + 1; ++i) offsets += one(4 * 2 + 1);
  offsets += one(2 * 2 + 1);
  bytes += section_of(2, attributes) + section_of(3, offsets);
  std::string module = one(0) + std::string(1, 1) + one(0) + one(kLists + 1);
  bytes += section_of(4, one(1 * 2) + module);
  EXPECT_NE(refusal(bytes).find("the program's text would have more than"), std::string::npos) << refusal(bytes);
}

}  // namespace
}  // namespace tessera
