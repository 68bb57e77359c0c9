// SPDX-License-Identifier: Apache-2.0
#include "hlo/host/foreign_functions.h"

#include "hlo/host/module_functions.h"

namespace tessera::hlo {

namespace {
ModuleFunctions<ForeignFunctions>& slot() {
  static auto* it = new ModuleFunctions<ForeignFunctions>;
  return *it;
}
}  // namespace

void set_foreign_functions(ForeignFunctions functions) { slot().set(std::move(functions)); }
ForeignFunctions foreign_functions() { return slot().get(); }

}  // namespace tessera::hlo
