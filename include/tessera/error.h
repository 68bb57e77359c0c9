// SPDX-License-Identifier: Apache-2.0
// Errors: one hierarchy. Every message names the function, the argument, its value, what was expected, and the line of
// the caller: "reshape: ... (at model.cc:42)".
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace tessera {

/// Base of everything that Tessera throws.
class Error : public std::runtime_error {
 public:
  /// Adds the caller's line (`CallSite::innermost`) to the message, unless the message has it already.
  explicit Error(const std::string& message);
};

/// An argument has the right kind but a wrong value.
class ValueError : public Error {
 public:
  using Error::Error;
};

/// An index or a position is outside its range.
class IndexError : public ValueError {
 public:
  using ValueError::ValueError;
};

/// A dimension cannot be split evenly by its mesh axes.
class IndivisibleError : public ValueError {
 public:
  using ValueError::ValueError;
};

/// A mesh axis name appears more than once.
class DuplicateAxisError : public ValueError {
 public:
  using ValueError::ValueError;
};

/// Values or programs that must share a device list do not.
class DeviceMismatchError : public ValueError {
 public:
  using ValueError::ValueError;
};

/// A named axis is used where nothing binds it.
class UnboundAxisError : public ValueError {
 public:
  using ValueError::ValueError;
};

/// Outside data (a file, a module, a string) does not have its format. `line` and `column` count from 1; 0 where
/// unknown.
class FormatError : public ValueError {
 public:
  FormatError(const std::string& message, std::string file, std::int64_t line = 0, std::int64_t column = 0)
      : ValueError(message), file_(std::move(file)), line_(line), column_(column) {}
  const std::string& file() const { return file_; }
  std::int64_t line() const { return line_; }
  std::int64_t column() const { return column_; }

 private:
  std::string file_;
  std::int64_t line_;
  std::int64_t column_;
};

/// A value has the wrong kind (dtype, sharding kind, tree kind).
class TypeError : public Error {
 public:
  using Error::Error;
};

/// Placements over `Explicit` mesh axes do not fit together: what an operation got, and the lines that would cure it.
class ShardingTypeError : public TypeError {
 public:
  using TypeError::TypeError;
};

/// The concrete value of a traced array was needed.
class ConcretizationError : public TypeError {
 public:
  using TypeError::TypeError;
};

/// An invariant of Tessera does not hold. No call of yours should lead here: please report it with the program.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// The object is not in a state that allows the call.
class StateError : public Error {
 public:
  using Error::Error;
};

/// The array was deleted or donated.
class DeletedArrayError : public StateError {
 public:
  using StateError::StateError;
};

/// A value of a traced function is used outside that trace: after the function ended, or on another thread.
class UnexpectedTracerError : public StateError {
 public:
  using StateError::StateError;
};

/// This process does not hold the data that is needed.
class NotAddressableError : public StateError {
 public:
  using StateError::StateError;
};

/// A program would communicate more than its `CommBudget` allows.
class CommBudgetError : public StateError {
 public:
  using StateError::StateError;
};

/// Memory, or another bounded resource, ran out. Everything that existed before stays usable.
class ResourceExhaustedError : public Error {
 public:
  using Error::Error;
};

/// The verification mode (`Config::verify`) has found a wrong value.
class VerificationError : public Error {
 public:
  using Error::Error;
};

/// A combination that is legal but not supported; the message states what to use instead.
class UnimplementedError : public Error {
 public:
  using Error::Error;
};

}  // namespace tessera
