// SPDX-License-Identifier: Apache-2.0
#include "tessera/error.h"

#include "base/strings.h"
#include "tessera/loc.h"

namespace tessera {

namespace {
std::string with_call_site(const std::string& message) {
  const Loc* at = CallSite::innermost();
  if (at == nullptr) return message;
  std::string where = str("(at ", *at, ")");
  return message.find(where) == std::string::npos ? str(message, " ", where) : message;
}
}  // namespace

Error::Error(const std::string& message) : std::runtime_error(with_call_site(message)) {}

}  // namespace tessera
