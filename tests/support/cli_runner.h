// SPDX-License-Identifier: Apache-2.0
// `tessera` as a user's shell runs it, in a folder of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera::test {

struct CliOutcome {
  int status = -1;  ///< of exit
  int signal = 0;   ///< that ended it
  std::string out, err;
};

/// The program that the environment's TESSERA_CLI names.
class CliTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  /// Of a file in the test's folder.
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  const std::string& folder() const { return folder_; }

  /// In the test's folder, by a shell, so that arguments may redirect; `before` are commands of the shell.
  CliOutcome run(const std::string& arguments, const std::string& before = "") const;
  /// Fails with a message that has all of the parts.
  void expect_refused(const std::string& arguments, const std::vector<std::string>& parts,
                      const std::string& before = "") const;

 private:
  std::string folder_;
};

}  // namespace tessera::test
