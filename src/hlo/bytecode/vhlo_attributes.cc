// SPDX-License-Identifier: Apache-2.0
// VHLO spreads the numbers of dimensions over many properties, says every default, and has strings for symbols; here
// they become what StableHLO's text has.
#include <algorithm>

#include "base/strings.h"
#include "hlo/bytecode/bytecode_ops.h"

namespace tessera::hlo {

namespace {
using Kind = AttrNode::Kind;

class StablehloAttributes {
 public:
  StablehloAttributes(BytecodeValues& values, std::string_view op, const std::vector<BytecodeField>& fields,
                      const ByteCursor& at)
      : values_(values), op_(op), fields_(fields), left_(fields.size(), true), at_(at) {}

  std::string text() {
    if (op_ == "dot_general") dot();
    if (op_ == "gather" || op_ == "dynamic_gather") gather();
    if (op_ == "scatter") scatter();
    if (op_ == "convolution" || op_ == "dynamic_conv") convolution();
    channel();
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (left_[i]) field(fields_[i]);
    }
    return std::move(out_);
  }

 private:
  void put(std::string_view name, std::string_view value) {
    if (!out_.empty()) out_ += ", ";
    out_ += name;
    if (!value.empty()) out_ += str(" = ", value);
    values_.spend(value.size());
  }

  // The property of this name, which is then not written by itself; null where there is none.
  const AttrNode* take(std::string_view name) {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].name != name) continue;
      left_[i] = false;
      return &values_.attr(fields_[i].attr);
    }
    return nullptr;
  }
  const AttrNode& need(std::string_view name) {
    const AttrNode* a = take(name);
    if (a == nullptr) at_.fail(str("vhlo.", op_, " has no ", name));
    return *a;
  }
  std::int64_t integer(std::string_view name) {
    const AttrNode& a = need(name);
    if (a.kind != Kind::Integer) values_.fail(a, str("expected an integer for ", name));
    return a.integer;
  }

  // ", name = [1, 2]" behind what stands in `to`; nothing for no numbers.
  void list(std::string& to, const char* name, bool may_miss = false) {
    const AttrNode* a = may_miss ? take(name) : &need(name);
    if (a == nullptr) return;
    auto numbers = values_.integers(*a);
    if (!numbers.empty()) to += str(to.empty() ? "" : ", ", name, " = [", join(numbers), "]");
  }

  void dot() {
    std::string dims;
    for (const char* name : {"lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
                             "rhs_contracting_dimensions"}) {
      list(dims, name);
    }
    put("dot_dimension_numbers", str("#stablehlo.dot<", dims, ">"));
    std::string algorithm;
    for (const char* name : {"lhs_precision_type", "rhs_precision_type", "accumulation_type", "lhs_component_count",
                             "rhs_component_count", "num_primitive_operations", "allow_imprecise_accumulation"}) {
      const AttrNode* a = take(name);
      if (a == nullptr) continue;
      if (a->kind == Kind::Type && values_.type(a->type).kind == TypeNode::Kind::None) continue;
      std::string value = a->kind == Kind::Type   ? values_.type(a->type).text
                          : a->kind == Kind::Bool ? str(a->integer != 0)
                                                  : str(a->integer);
      algorithm += str(algorithm.empty() ? "" : ", ", name, " = ", value);
    }
    if (!algorithm.empty()) put("algorithm", str("#stablehlo.dot_algorithm<", algorithm, ">"));
  }

  void gather() {
    std::string dims;
    list(dims, "offset_dims");
    list(dims, "collapsed_slice_dims");
    list(dims, "operand_batching_dims", true);
    list(dims, "start_indices_batching_dims", true);
    list(dims, "start_index_map");
    dims += str(dims.empty() ? "" : ", ", "index_vector_dim = ", integer("index_vector_dim"));
    put("dimension_numbers", str("#stablehlo.gather<", dims, ">"));
  }

  void scatter() {
    std::string dims;
    list(dims, "update_window_dims");
    list(dims, "inserted_window_dims");
    list(dims, "input_batching_dims", true);
    list(dims, "scatter_indices_batching_dims", true);
    list(dims, "scatter_dims_to_operand_dims");
    dims += str(dims.empty() ? "" : ", ", "index_vector_dim = ", integer("index_vector_dim"));
    put("scatter_dimension_numbers", str("#stablehlo.scatter<", dims, ">"));
  }

  // "[b, 0, 1, f]": what each dimension of an operand or of the result is.
  std::string roles(const char* first, char first_role, const char* second, char second_role, const char* spatial) {
    const AttrNode& a = need(spatial);
    auto places = values_.integers(a);
    places.push_back(integer(first));
    places.push_back(integer(second));
    std::vector<std::string> out(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      std::size_t left = places.size() - i;
      auto place = static_cast<std::size_t>(places[i]);
      if (place >= out.size() || !out[place].empty())
        values_.fail(a, "the dimensions of a convolution are numbered badly");
      out[place] = left == 2 ? std::string(1, first_role) : left == 1 ? std::string(1, second_role) : str(i);
    }
    return str("[", join(out), "]");
  }

  void convolution() {
    std::string in = roles("input_batch_dimension", 'b', "input_feature_dimension", 'f', "input_spatial_dimensions");
    std::string kernel = roles("kernel_input_feature_dimension", 'i', "kernel_output_feature_dimension", 'o',
                               "kernel_spatial_dimensions");
    std::string out =
        roles("output_batch_dimension", 'b', "output_feature_dimension", 'f', "output_spatial_dimensions");
    put("dimension_numbers", str("#stablehlo.conv<", in, "x", kernel, "->", out, ">"));
  }

  void channel() {
    if (take("channel_id") == nullptr) return;
    std::int64_t handle = integer("channel_id");
    bool has_type = take("channel_type") != nullptr;
    std::int64_t type = has_type ? integer("channel_type") : 0;
    if (handle == 0 && !has_type) return;
    put("channel_handle", str("#stablehlo.channel_handle<handle = ", handle, ", type = ", type, ">"));
  }

  // Symbols are strings here.
  std::string symbols(const AttrNode& a) {
    if (a.kind == Kind::String) return str("@", quoted(a.text));
    if (a.kind != Kind::Array) values_.fail(a, "expected names of functions");
    std::string out = "[";
    for (auto i : a.items) {
      std::string name = quoted(values_.attr(i).text);
      values_.spend(name.size());
      out += str(out.size() > 1 ? ", @" : "@", name);
    }
    return out + "]";
  }

  bool is_default(std::string_view name, const AttrNode& a) {
    if (name == "composite_attributes" || name == "backend_config") {
      return (a.kind == Kind::Dict && a.items.empty()) || (a.kind == Kind::String && a.text.empty());
    }
    if (name == "operand_layouts" || name == "result_layouts") {
      auto empty = [&](const BytecodeField& f) {
        return !f.name.ends_with("_layouts") || values_.attr(f.attr).items.empty();
      };
      return std::all_of(fields_.begin(), fields_.end(), empty);
    }
    if (a.kind == Kind::Array) return a.items.empty();
    if (a.kind == Kind::String) return a.text.empty() && (name == "sym_visibility" || name.ends_with("feed_config"));
    if (name == "use_global_device_ids" || name == "has_dynamic_root") return a.kind == Kind::Bool && a.integer == 0;
    if (name == "result_accuracy") return a.kind == Kind::Unit;
    return name == "compare_type" && a.text == "NOTYPE";
  }

  void field(const BytecodeField& f) {
    const AttrNode& a = values_.attr(f.attr);
    if (is_default(f.name, a)) return;
    if (f.name == "use_global_device_ids" || f.name == "has_dynamic_root") return put(f.name, "");
    if (f.name == "callee" || f.name == "decomposition" || f.name == "called_computations") {
      return put(f.name, symbols(a));
    }
    bool short_list = a.kind == Kind::Elements && f.name != "value" && values_.type(a.type).shape.size() == 1;
    if (!short_list) return put(f.name, values_.text(f.attr));
    const TypeNode& element = values_.type(values_.type(a.type).element);
    std::string numbers;
    for (auto n : values_.integers(a)) {
      numbers += numbers.empty() ? ": " : ", ";
      numbers += element.width == 1 ? std::string(n != 0 ? "true" : "false") : str(n);
    }
    values_.spend(numbers.size());
    put(f.name, str("array<", element.text, numbers, ">"));
  }

  BytecodeValues& values_;
  std::string_view op_;
  const std::vector<BytecodeField>& fields_;
  std::vector<bool> left_;
  const ByteCursor& at_;
  std::string out_;
};
}  // namespace

std::string stablehlo_attributes(BytecodeValues& values, std::string_view op, const std::vector<BytecodeField>& fields,
                                 const ByteCursor& at) {
  return StablehloAttributes(values, op, fields, at).text();
}

}  // namespace tessera::hlo
