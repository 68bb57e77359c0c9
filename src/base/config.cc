// SPDX-License-Identifier: Apache-2.0
#include "tessera/config.h"

#include <cstdlib>
#include <string_view>

#include "base/sanitizers.h"

namespace tessera {

namespace {
// Sanitizers see what kernels read and write, not what code does that is written at run time.
#if defined(TESSERA_ADDRESS_SANITIZER) || defined(TESSERA_THREAD_SANITIZER)
constexpr bool kCompileBlocks = false;
#else
constexpr bool kCompileBlocks = true;
#endif
}  // namespace

Config& config() {
  static auto* c = [] {
    auto* made = new Config;
    const char* verify = std::getenv("TESSERA_VERIFY");
    const char* blocks = std::getenv("TESSERA_COMPILE_BLOCKS");
    const char* progress = std::getenv("TESSERA_PROGRESS");
    made->compile_blocks = blocks == nullptr ? kCompileBlocks : std::string_view(blocks) != "0";
    made->verify = verify != nullptr && *verify != '\0' && std::string_view(verify) != "0";
    made->progress = progress == nullptr || std::string_view(progress) != "0";
    return made;
  }();
  return *c;
}

std::size_t config_key() {
  const Config& c = config();
  std::size_t key = 0;
  for (bool b :
       {c.use_shardy.get(), c.enable_checks.get(), c.deterministic.get(), c.debug_nans.get(), c.verify.get()}) {
    key = key * 2 + (b ? 1 : 0);
  }
  return key;
}

}  // namespace tessera
