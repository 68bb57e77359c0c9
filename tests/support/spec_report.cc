// SPDX-License-Identifier: Apache-2.0
#include "tests/support/spec_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace tessera::test {
namespace {

// Lines wait here until their test has ended: a test that names a requirement and fails later must leave no line.
class Recorder : public ::testing::EmptyTestEventListener {
 public:
  explicit Recorder(std::filesystem::path file) : file_(std::move(file)) {}

  void add(std::string line) { waiting_.push_back(std::move(line)); }

  void OnTestEnd(const ::testing::TestInfo& info) override {
    if (info.result()->Passed() && !waiting_.empty()) {
      std::ofstream out(file_, std::ios::app);
      for (const std::string& line : waiting_) out << line << '\n';
      if (!out.flush()) ADD_FAILURE() << "cannot write the requirements shown to " << file_;
    }
    waiting_.clear();
  }

 private:
  std::filesystem::path file_;
  std::vector<std::string> waiting_;
};

// One file per process, so that binaries run side by side never share one.
Recorder* make_recorder() {
  const char* dir = std::getenv("TESSERA_SPEC_REPORT_DIR");
  if (dir == nullptr || *dir == '\0') return nullptr;
  std::filesystem::create_directories(dir);
  const std::string name = program_invocation_short_name + ("." + std::to_string(::getpid())) + ".txt";
  auto* recorder = new Recorder(std::filesystem::path(dir) / name);
  ::testing::UnitTest::GetInstance()->listeners().Append(recorder);  // takes ownership
  return recorder;
}

void add_line(std::string line) {
  static Recorder* const recorder = make_recorder();
  if (recorder != nullptr) recorder->add(std::move(line));
}

}  // namespace

void record_requirements(std::initializer_list<const char*> ids) {
  record_requirements(std::set<std::string>(ids.begin(), ids.end()));
}

void record_requirements(const std::set<std::string>& ids) {
  const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
  ASSERT_NE(info, nullptr) << "TESSERA_SPEC stands outside a test";
  for (const auto& id : ids) {
    add_line("requirement " + id + ": " + info->test_suite_name() + "." + info->name() + " passed");
  }
}

void record_cases(const std::string& file, int passed, int total) {
  ASSERT_NE(::testing::UnitTest::GetInstance()->current_test_info(), nullptr) << "record_cases outside a test";
  add_line("cases " + file + ": " + std::to_string(passed) + "/" + std::to_string(total));
}

}  // namespace tessera::test
