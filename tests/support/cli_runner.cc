// SPDX-License-Identifier: Apache-2.0
#include "support/cli_runner.h"

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"

namespace tessera::test {

namespace {

std::string quoted(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out;
}

}  // namespace

void CliTest::SetUp() {
  std::string pattern = ::testing::TempDir() + "tessera_cli_XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
  ASSERT_NE(std::getenv("TESSERA_CLI"), nullptr);
}

void CliTest::TearDown() { std::filesystem::remove_all(folder_); }

CliOutcome CliTest::run(const std::string& arguments, const std::string& before) const {
  const std::string script = "cd '" + folder_ + "'\n" + before + "\nexec \"$TESSERA_CLI\" " + arguments;
  const std::string command = "sh -c '" + quoted(script) + "' >'" + path(".out") + "' 2>'" + path(".err") + "'";
  const int code = std::system(command.c_str());
  CliOutcome o;
  if (WIFSIGNALED(code)) o.signal = WTERMSIG(code);
  if (WIFEXITED(code)) o.status = WEXITSTATUS(code);
  if (o.status > 128) o.signal = o.status - 128;  // as the outer shell tells it
  o.out = base::read_file("test", path(".out"));
  o.err = base::read_file("test", path(".err"));
  std::filesystem::remove(path(".out"));
  std::filesystem::remove(path(".err"));
  return o;
}

void CliTest::expect_refused(const std::string& arguments, const std::vector<std::string>& parts,
                             const std::string& before) const {
  const CliOutcome o = run(arguments, before);
  EXPECT_EQ(o.signal, 0) << arguments;
  EXPECT_TRUE(o.status == 1 || o.status == 2) << arguments << ": " << o.status;
  for (const auto& part : parts) EXPECT_NE(o.err.find(part), std::string::npos) << arguments << ": " << o.err;
}

}  // namespace tessera::test
