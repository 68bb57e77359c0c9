// SPDX-License-Identifier: Apache-2.0
// What XLA's headers name of MLIR, whose own headers the wheel does not have.
#pragma once

namespace mlir {

class Operation;
class MLIRContext;
class ModuleOp {
 public:
  Operation* state;
};

}  // namespace mlir
