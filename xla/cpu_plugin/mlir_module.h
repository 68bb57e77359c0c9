// SPDX-License-Identifier: Apache-2.0
// As much of MLIR as it takes to own a module: sizes, and the functions that the library defines.
#pragma once

#include <utility>

#include "mlir/IR/BuiltinOps.h"

namespace mlir {

class Operation {
 public:
  void erase();
};

class MLIRContext {
 public:
  enum class Threading { DISABLED, ENABLED };
  explicit MLIRContext(Threading threading);
  ~MLIRContext();
  MLIRContext(const MLIRContext&) = delete;
  MLIRContext& operator=(const MLIRContext&) = delete;

 private:
  void* implementation_ = nullptr;
};

template <class Op>
class OwningOpRef {
 public:
  OwningOpRef() = default;
  OwningOpRef(OwningOpRef&& other) noexcept : op_(std::exchange(other.op_, Op())) {}
  OwningOpRef& operator=(OwningOpRef&& other) noexcept {
    std::swap(op_, other.op_);
    return *this;
  }
  ~OwningOpRef() {
    if (op_.state != nullptr) op_.state->erase();
  }
  Op get() const { return op_; }

 private:
  Op op_{};
};

}  // namespace mlir
