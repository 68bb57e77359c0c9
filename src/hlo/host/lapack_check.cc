// SPDX-License-Identifier: Apache-2.0
// Shapes and dtypes that LAPACK's routines need, so that none reads or writes beyond its arrays.
#include <algorithm>

#include "base/strings.h"
#include "hlo/host/lapack.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
using ir::Type;
using ir::Types;

struct Wanted {
  Types in, out;
};

// Shapes of one call: the batch of the first operand, then what is given.
class Shapes {
 public:
  Shapes(const Type& matrix, std::size_t rank)
      : dtype_(matrix.dtype), batch_(matrix.shape.begin(), matrix.shape.end() - static_cast<std::ptrdiff_t>(rank)) {}
  Type same(const Dims& dims) const { return typed(dtype_, dims); }
  Type real(const Dims& dims) const { return typed(real_dtype(dtype_), dims); }
  Type complex(const Dims& dims) const { return typed(complex_dtype(dtype_), dims); }
  Type integers(const Dims& dims) const { return typed(DType::I32, dims); }

 private:
  Type typed(DType t, const Dims& dims) const {
    Shape s = batch_;
    s.insert(s.end(), dims.begin(), dims.end());
    return {t, s, false};
  }
  DType dtype_;
  Shape batch_;
};

std::int64_t flag(const std::map<std::string, std::int64_t>& flags, const char* name, std::int64_t otherwise) {
  auto it = flags.find(name);
  return it == flags.end() ? otherwise : it->second;
}
void need(bool condition, const std::string& routine, const char* what) {
  if (!condition) throw ValueError(str(routine, ": ", what));
}

Wanted wanted_gesvd(const Shapes& s, const Type& a, std::int64_t m, std::int64_t n, std::int64_t mode,
                    ir::TypeSpan out) {
  std::int64_t k = std::min(m, n);
  need(out.size() == 5 && (mode == 'A' || mode == 'S' || mode == 'N'), "gesvd", "expected mode A, S or N");
  Types results{a, s.real({k})};
  results.push_back(mode == 'N' ? out[2] : s.same({m, mode == 'A' ? m : k}));
  results.push_back(mode == 'N' ? out[3] : s.same({mode == 'A' ? n : k, n}));
  results.push_back(s.integers({}));
  return {{a}, results};
}
// Eigenvalues of real matrices are two lists, of complex ones one.
Wanted wanted_eigen(const Shapes& s, const Type& a, std::int64_t n, bool vectors) {
  Type w = s.same({n}), v = s.complex({n, n}), info = s.integers({});
  bool complex = is_complex(a.dtype);
  if (vectors) return {{a}, complex ? Types{w, v, v, info} : Types{w, w, v, v, info}};
  return {{a}, complex ? Types{a, a, w, info, info} : Types{a, a, w, w, info, info}};
}

Wanted wanted(const std::string& routine, const std::map<std::string, std::int64_t>& flags, ir::TypeSpan in,
              ir::TypeSpan out) {
  bool vector_first = routine == "gtsv";
  std::size_t rank = vector_first ? 1 : 2;
  need(!in.empty() && in[0].shape.size() >= rank, routine, "the first operand has too few dimensions");
  DType t = in[0].dtype;
  need(t == DType::F32 || t == DType::F64 || is_complex(t), routine, "the dtype is none of LAPACK's");
  Shapes s(in[0], rank);
  std::int64_t m = rank == 2 ? in[0].shape[in[0].shape.size() - 2] : 0, n = in[0].shape.back(), k = std::min(m, n);
  Type a = rank == 2 ? s.same({m, n}) : s.same({n});
  bool eigen = routine == "syevd" || routine == "geev" || routine == "gees";
  if (eigen) need(m == n, routine, "the matrix must be square");
  bool reduced = routine == "gehrd" || routine == "sytrd";
  if (reduced) need(m == n && n > 0, routine, "the matrix must be square and not empty");
  auto last = [&](std::size_t i) {
    need(i < in.size() && !in[i].shape.empty(), routine, "an operand is missing");
    return in[i].shape.back();
  };
  if (routine == "geqrf") return {{a}, {a, s.same({k})}};
  if (routine == "orgqr") {
    need(last(1) <= n && n <= m, routine, "expected reflectors <= columns <= rows");
    return {{a, s.same({last(1)})}, {a}};
  }
  if (routine == "ormqr") {
    need(in.size() == 3 && in[2].shape.size() >= 2, routine, "expected three operands");
    std::int64_t rows = in[2].shape[in[2].shape.size() - 2];
    std::int64_t order = flag(flags, "left", 1) != 0 ? rows : last(2);
    need(m == order && last(1) <= n && last(1) <= order, routine, "the reflectors do not fit the matrix");
    Type c = s.same({rows, last(2)});
    return {{a, s.same({last(1)}), c}, {c}};
  }
  if (routine == "gehrd") {
    std::int64_t low = flag(flags, "low", 1), high = flag(flags, "high", n);
    need(low >= 1 && high <= n && low <= high, routine, "low and high must lie inside the matrix");
    return {{a}, {a, s.same({n - 1}), s.integers({})}};
  }
  if (routine == "sytrd") return {{a}, {a, s.real({n}), s.real({n - 1}), s.same({n - 1}), s.integers({})}};
  if (routine == "syevd") return {{a}, {a, s.real({n}), s.integers({})}};
  if (routine == "gtsv") {
    need(n > 0, routine, "the matrix is empty");
    Type b = s.same({n, last(3)});
    return {{a, a, a, b}, {a, a, a, b, s.integers({})}};
  }
  if (routine == "geqp3") return {{a, s.integers({n})}, {a, s.integers({n}), s.same({k})}};
  if (routine == "gesvd") return wanted_gesvd(s, a, m, n, flag(flags, "mode", 'S'), out);
  if (routine == "geev" || routine == "gees") return wanted_eigen(s, a, n, routine == "geev");
  throw UnimplementedError(str("the custom call lapack_*", routine, " is not known here"));
}
}  // namespace

std::int64_t lapack_batch_dims(const std::string& routine, ir::TypeSpan in) {
  return in[0].rank() - (routine == "gtsv" ? 1 : 2);
}

void check_lapack(const std::string& routine, const std::map<std::string, std::int64_t>& flags, ir::TypeSpan in,
                  ir::TypeSpan out) {
  Wanted w = wanted(routine, flags, in, out);
  auto same = [](ir::TypeSpan x, const Types& y) {
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), [](const Type& p, const Type& q) {
             return p.dtype == q.dtype && p.shape == q.shape;
           });
  };
  if (!same(in, w.in)) throw ValueError(str(routine, ": operands ", join(in), "; expected ", join(w.in)));
  if (!same(out, w.out)) throw ValueError(str(routine, ": results ", join(out), "; expected ", join(w.out)));
}

}  // namespace tessera::hlo
