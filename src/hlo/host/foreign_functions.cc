// SPDX-License-Identifier: Apache-2.0
#include "hlo/host/foreign_functions.h"

#include "hlo/host/module_functions.h"

namespace tessera::hlo {

void set_foreign_functions(ForeignFunctions functions) {
  ModuleFunctions<ForeignFunctions>::of_process().set(std::move(functions));
}
ForeignFunctions foreign_functions() { return ModuleFunctions<ForeignFunctions>::of_process().get(); }

}  // namespace tessera::hlo
