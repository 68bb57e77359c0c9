// SPDX-License-Identifier: Apache-2.0
// Recorded calls of JAX: reading them, and comparing with them. tests/oracle/README.md describes the fields.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/dtype.h"
#include "tessera/host_array.h"
#include "tessera/shape.h"

namespace tessera::oracle {

/// Parameters by JAX's keyword names. Each getter throws `ValueError` when the parameter is missing or of another kind.
class Params {
 public:
  struct Node;  ///< a JSON value; kept out of this header
  Params() = default;
  explicit Params(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

  bool empty() const;
  /// Present and not null.
  bool has(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  std::int64_t integer(const std::string& name, std::int64_t otherwise) const;
  double real(const std::string& name) const;
  double real(const std::string& name, double otherwise) const;
  std::optional<double> maybe_real(const std::string& name) const;
  std::vector<double> reals(const std::string& name) const;
  bool flag(const std::string& name, bool otherwise = false) const;
  std::string text(const std::string& name) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  DType dtype(const std::string& name) const;
  DType dtype(const std::string& name, DType otherwise) const;
  std::optional<DType> maybe_dtype(const std::string& name) const;
  /// A list of integers; one integer is a list of one.
  Dims dims(const std::string& name) const;
  std::optional<Dims> maybe_dims(const std::string& name) const;
  std::optional<std::int64_t> maybe_integer(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;
  /// A list of lists of integers.
  std::vector<Dims> lists(const std::string& name) const;
  bool is_text(const std::string& name) const;
  bool is_list(const std::string& name) const;
  bool is_integer(const std::string& name) const;
  bool is_bool(const std::string& name) const;
  /// A nested object, a list's elements, and what an element is.
  Params at(const std::string& name) const;
  std::vector<Params> items(const std::string& name) const;
  /// Element i of a list of lists.
  Dims as_list(std::size_t i) const;
  bool is_integer() const;
  bool is_text() const;
  std::int64_t as_integer() const;
  std::string as_text() const;
  std::vector<std::optional<std::int64_t>> as_optional_integers() const;

 private:
  std::shared_ptr<const Node> node_;
};

/// An argument or a result.
struct CaseValue {
  HostArray value;
  bool weak = false;    ///< a weakly typed array
  bool scalar = false;  ///< a number written in the program
  bool key = false;     ///< uint32 words of random keys, two each
};

struct Case {
  std::string id, fn, kind;
  std::vector<CaseValue> args;
  Params params;
  std::vector<std::size_t> wrt;
  std::vector<HostArray> cts, tangents;
  std::vector<CaseValue> out;
  double rtol = 0, atol = 0;
  bool zeros = false;  ///< the signs of zeros count
};

/// The cases of tests/oracle/cases/<group>.jsonl.
std::vector<Case> load(const std::string& group);

/// Empty when `got` is what was recorded, else what differs.
std::string difference(const HostArray& got, const HostArray& want, double rtol, double atol, bool zeros = false);

}  // namespace tessera::oracle
