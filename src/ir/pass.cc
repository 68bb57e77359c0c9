// SPDX-License-Identifier: Apache-2.0
#include "ir/pass.h"

#include <cstdlib>
#include <string_view>

#include "base/strings.h"
#include "base/verify_mode.h"
#include "tessera/error.h"

namespace tessera::ir {

namespace {
bool always() {
#ifndef NDEBUG
  return true;
#else
  const char* value = std::getenv("TESSERA_VERIFY_PASSES");
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
#endif
}
}  // namespace

bool verifies_passes() {
  static const bool on = always();
  return on || base::verifying();
}

GraphPtr after_pass(const char* pass, GraphPtr g) {
  if (!verifies_passes()) return g;
  try {
    verify(*g);
  } catch (const InternalError& e) {
    throw InternalError(str("after ", pass, ": ", e.what()));
  }
  return g;
}

}  // namespace tessera::ir
