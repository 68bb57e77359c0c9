// SPDX-License-Identifier: Apache-2.0
// Einstein summation: diagonals and sums within operands first, then pair by pair in the order given.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "numpy/placed.h"
#include "program/promote.h"
#include "tessera/numpy.h"

namespace tessera {

namespace {

struct Term {
  std::string labels;
  Array value;
};

std::int64_t find(const std::string& s, char c) { return static_cast<std::int64_t>(s.find(c)); }

std::vector<std::string> split_terms(const std::string& text) {
  std::vector<std::string> out{""};
  for (char c : text) {
    if (c == ',') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

// Replaces "..." by capital letters that the text does not use, aligned at the right.
struct Ellipsis {
  std::string labels;  // the longest ellipsis, as letters
  std::string expand(const std::string& term, std::int64_t rank, const std::string& subscripts) const {
    auto dots = term.find("...");
    if (dots == std::string::npos) return term;
    auto named = static_cast<std::int64_t>(term.size()) - 3;
    if (rank < named)
      throw ValueError(str("einsum: subscripts \"", subscripts, "\": \"", term,
                           "\" names more dimensions than the operand's ", rank));
    auto n = static_cast<std::size_t>(rank - named);
    return term.substr(0, dots) + labels.substr(labels.size() - n) + term.substr(dots + 3);
  }
};

// Takes the diagonal of repeated labels: a mask keeps what lies on it, a sum drops the second dimension.
void take_diagonals(Term& t, const Loc& loc) {
  for (std::size_t i = 0; i < t.labels.size(); ++i) {
    for (std::size_t j = t.labels.size() - 1; j > i; --j) {
      if (t.labels[i] != t.labels[j]) continue;
      auto a = static_cast<std::int64_t>(i);
      auto b = static_cast<std::int64_t>(j);
      const auto* split = program::checked_sharding(t.value, "einsum");
      if (program::is_split(split, a) || program::is_split(split, b)) {
        throw ShardingTypeError(str("einsum: the label '", std::string(1, t.labels[i]), "' is repeated in an operand ",
                                    program::type_of(t.value, "einsum"),
                                    ": to select a diagonal its dimensions must have the same sharding, unsplit; "
                                    "reshard the operand"));
      }
      Shape shape = t.value.shape();
      Array same = iota(int32, shape, a, loc) == Operand(iota(int32, shape, b, loc), loc);
      Array zero = zeros({}, t.value.dtype(), loc);
      t.value = sum(Operand(where(same, t.value, zero), loc), {.axis = Dims{b}, .dtype = t.value.dtype()});
      t.labels.erase(j, 1);
    }
  }
}

// Sums labels that nothing else needs.
void sum_unneeded(Term& t, const std::string& needed, const Loc& loc) {
  Dims axes;
  std::string left;
  for (std::size_t i = 0; i < t.labels.size(); ++i) {
    if (needed.find(t.labels[i]) == std::string::npos) {
      axes.push_back(static_cast<std::int64_t>(i));
    } else {
      left += t.labels[i];
    }
  }
  if (axes.empty()) return;
  t.value = sum(Operand(t.value, loc), {.axis = axes, .dtype = t.value.dtype()});
  t.labels = left;
}

// A dimension of extent 1 beside a larger one of the same label broadcasts: drop it.
void drop_ones(Term& t, const std::map<char, std::int64_t>& extent, const Loc& loc) {
  Dims ones;
  std::string left;
  for (std::size_t i = 0; i < t.labels.size(); ++i) {
    if (t.value.shape()[i] == 1 && extent.at(t.labels[i]) != 1) {
      ones.push_back(static_cast<std::int64_t>(i));
    } else {
      left += t.labels[i];
    }
  }
  if (ones.empty()) return;
  t.value = squeeze(Operand(t.value, loc), ones);
  t.labels = left;
}

Term contract(const Term& a, const Term& b, const std::string& needed, const DotOptions& o, const Loc& loc) {
  DotDimensionNumbers d;
  std::string batch;
  std::string free_a;
  std::string free_b;
  for (std::size_t i = 0; i < a.labels.size(); ++i) {
    char c = a.labels[i];
    auto j = find(b.labels, c);
    if (j < 0) {
      free_a += c;
    } else if (needed.find(c) != std::string::npos) {
      d.lhs_batch.push_back(static_cast<std::int64_t>(i));
      d.rhs_batch.push_back(j);
      batch += c;
    } else {
      d.lhs_contracting.push_back(static_cast<std::int64_t>(i));
      d.rhs_contracting.push_back(j);
    }
  }
  for (char c : b.labels) {
    if (find(a.labels, c) < 0) free_b += c;
  }
  return {batch + free_a + free_b, dot_general(Operand(a.value, loc), Operand(b.value, loc), d, o)};
}

// The subscripts without blanks.
std::string checked_text(const std::string& subscripts) {
  std::string text;
  for (char c : subscripts) {
    if (c == ' ') continue;
    if (!std::isalpha(static_cast<unsigned char>(c)) && c != ',' && c != '.' && c != '-' && c != '>') {
      throw ValueError(str("einsum: subscripts = \"", subscripts, "\" has the character '", c,
                           "'; expected letters, commas, \"...\" and \"->\""));
    }
    text += c;
  }
  return text;
}

// Labels, unused elsewhere, for the dimensions that "..." stands for in any operand.
Ellipsis ellipsis_of(const std::string& text, const std::vector<std::string>& terms,
                     const std::vector<Array>& operands) {
  std::string spare;
  for (char c = 'A'; c <= 'Z'; ++c) {
    if (text.find(c) == std::string::npos) spare += c;
  }
  std::size_t longest = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (terms[i].find("...") == std::string::npos) continue;
    std::int64_t n = operands[i].ndim() - static_cast<std::int64_t>(terms[i].size()) + 3;
    longest = std::max(longest, static_cast<std::size_t>(std::max<std::int64_t>(n, 0)));
  }
  Ellipsis dots;
  dots.labels = spare.substr(0, longest);
  return dots;
}

// Notes the extents of a term's labels; extent 1 fits any other.
void add_extents(const Term& t, std::size_t operand, std::map<char, std::int64_t>& extent) {
  const Shape& shape = t.value.shape();
  for (std::size_t k = 0; k < t.labels.size(); ++k) {
    auto n = shape[k];
    auto [it, fresh] = extent.try_emplace(t.labels[k], n);
    if (it->second == 1) it->second = n;
    if (n != 1 && n != it->second) {
      throw ValueError(str("einsum: label '", std::string(1, t.labels[k]), "' is ", n, " in operand ", operand,
                           " with shape ", shape, "; expected ", it->second));
    }
  }
}

// Labels of the result: those behind the arrow, else those that occur once, in alphabetical order.
std::string result_labels(const std::string& text, const Ellipsis& dots, const std::vector<Term>& terms) {
  auto arrow = text.find("->");
  if (arrow != std::string::npos) {
    std::string result = text.substr(arrow + 2);
    auto at = result.find("...");
    return at == std::string::npos ? result : result.substr(0, at) + dots.labels + result.substr(at + 3);
  }
  std::map<char, int> count;
  for (const auto& t : terms) {
    for (char c : t.labels) ++count[c];
  }
  std::string result = dots.labels;
  for (const auto& [c, n] : count) {
    if (n == 1 && dots.labels.find(c) == std::string::npos) result += c;
  }
  return result;
}

// The product of all terms, summed over what the result does not name, from left to right.
Term contract_all(std::vector<Term> terms, const std::string& result, const DotOptions& options, const Loc& loc) {
  Term total = terms[0];
  for (std::size_t i = 0; i < terms.size(); ++i) {
    std::string needed = result;
    for (std::size_t j = i + 1; j < terms.size(); ++j) needed += terms[j].labels;
    if (i > 0) {
      sum_unneeded(terms[i], needed + total.labels, loc);
      total = contract(total, terms[i], needed, options, loc);
    }
    sum_unneeded(total, needed, loc);
  }
  return total;
}

}  // namespace

Array einsum(const std::string& subscripts, const std::vector<Array>& operands, const DotOptions& options,
             const Loc& loc) {
  std::string text = checked_text(subscripts);
  std::vector<std::string> terms = split_terms(text.substr(0, text.find("->")));
  if (terms.size() != operands.size()) {
    throw ValueError(
        str("einsum: subscripts = \"", subscripts, "\" names ", terms.size(), " operands; got ", operands.size()));
  }
  Ellipsis dots = ellipsis_of(text, terms, operands);
  std::vector<Array> in = program::promote("einsum", operands, loc);
  std::vector<Term> values;
  std::map<char, std::int64_t> extent;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    Term t{dots.expand(terms[i], in[i].ndim(), subscripts), in[i]};
    if (t.labels.size() != in[i].shape().size()) {
      throw ValueError(str("einsum: \"", terms[i], "\" names ", t.labels.size(), " dimensions of operand ", i,
                           " with shape ", in[i].shape()));
    }
    add_extents(t, i, extent);
    values.push_back(std::move(t));
  }
  std::string result = result_labels(text, dots, values);
  for (char c : result) {
    if (!extent.contains(c))
      throw ValueError(str("einsum: result label '", std::string(1, c), "' is in no operand of \"", subscripts, "\""));
  }
  if (std::set<char>(result.begin(), result.end()).size() != result.size()) {
    throw ValueError(str("einsum: a label appears twice in the result of \"", subscripts, "\""));
  }

  for (auto& t : values) {
    take_diagonals(t, loc);
    drop_ones(t, extent, loc);
  }
  return detail::placed_as(options.out_sharding, "einsum", [&] {
    Term total = contract_all(values, result, program::unplaced(options), loc);
    Dims permutation;
    for (char c : result) permutation.push_back(find(total.labels, c));
    Array out = transpose(Operand(total.value, loc), permutation);
    if (operands.size() == 1 && options.preferred_element_type) out = astype(out, *options.preferred_element_type);
    return out;
  });
}

}  // namespace tessera
