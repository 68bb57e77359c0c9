// SPDX-License-Identifier: Apache-2.0
// The project's own support: the recorder of shown requirements, run through child processes of this binary because
// what is written depends on how a whole test run ends, and the README.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/paths.h"
#include "tests/support/spec_report.h"

namespace {

namespace fs = std::filesystem;

// Children of the tests below; they take part in nothing when the binary is run as a whole.
class SupportChild : public ::testing::Test {
 protected:
  static bool is_child() { return std::getenv("TESSERA_SUPPORT_CHILD") != nullptr; }
};

TEST_F(SupportChild, Passes) {
  if (!is_child()) return;
  TESSERA_SPEC("G900", "G901");
  tessera::test::record_cases("some/cases.jsonl", 3, 3);
}

TEST_F(SupportChild, Fails) {
  if (!is_child()) return;
  TESSERA_SPEC("G902");
  FAIL() << "on purpose";
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs the named child; returns all that it left in its report folder.
std::string run_child(const std::string& filter, bool with_folder) {
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const fs::path folder = fs::path(::testing::TempDir()) / ("spec_report_" + filter);
  fs::remove_all(folder);
  const std::string report = with_folder ? "TESSERA_SPEC_REPORT_DIR='" + folder.string() + "' " : "";
  const std::string command = "env -u GTEST_OUTPUT -u TESSERA_SPEC_REPORT_DIR TESSERA_SUPPORT_CHILD=1 " + report + "'" +
                              self.string() + "' --gtest_filter=SupportChild." + filter + " >/dev/null 2>&1";
  const int status = std::system(command.c_str());
  EXPECT_EQ(status == 0, filter == "Passes");
  std::string text;
  if (fs::exists(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) text += text_of(entry.path());
  }
  fs::remove_all(folder);
  return text;
}

TEST(SpecReport, WritesTheRequirementsOfAPassedTest) {
  EXPECT_EQ(run_child("Passes", true),
            "requirement G900: SupportChild.Passes passed\n"
            "requirement G901: SupportChild.Passes passed\n"
            "cases some/cases.jsonl: 3/3\n");
}

TEST(SpecReport, WritesNothingForAFailedTest) { EXPECT_EQ(run_child("Fails", true), ""); }

TEST(SpecReport, WritesNothingWithoutAFolder) { EXPECT_EQ(run_child("Passes", false), ""); }

TEST(Paths, LeadIntoTheSourceTree) {
  EXPECT_TRUE(fs::exists(tessera::test::data_path("support/spec_report.h")));
  EXPECT_TRUE(fs::exists(tessera::test::source_path("CMakeLists.txt")));
}

TEST(Readme, ShowsTheFirstProgramAsItIs) {
  const std::string program = text_of(tessera::test::source_path("examples/first.cc"));
  ASSERT_FALSE(program.empty());
  EXPECT_NE(text_of(tessera::test::source_path("README.md")).find("```cpp\n" + program + "```"), std::string::npos);
}

}  // namespace
