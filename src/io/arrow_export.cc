// SPDX-License-Identifier: Apache-2.0
// Arrays as structs of Arrow's interface. Every struct owns what it points to, so that a consumer may move a child out
// of its parent.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "io/arrow_column.h"
#include "io/host_memory.h"
#include "tessera/arrow.h"
#include "tessera/error.h"
#include "tessera/host_array.h"

namespace tessera {

namespace {

// A struct with the children, buffers and strings that it points to.
struct ArrayNode {
  std::vector<const void*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> pointers;
  std::shared_ptr<void> memory;
};
struct SchemaNode {
  std::string format;
  std::string name;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;
};

template <class T, class Node>
void release_node(T* self) {
  auto* node = static_cast<Node*>(self->private_data);
  for (T& child : node->children) {
    if (child.release != nullptr) child.release(&child);
  }
  self->release = nullptr;
  delete node;
}

// Structs that are released unless they are given away.
template <class T>
struct Children {
  std::vector<T> list;
  Children() = default;
  Children(Children&&) = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() {
    for (T& child : list) {
      if (child.release != nullptr) child.release(&child);
    }
  }
};

template <class T, class Node>
void adopt(T& out, std::unique_ptr<Node> node, Children<T> children) {
  for (T& child : children.list) node->pointers.push_back(&child);  // the vector's memory moves with it
  node->children = std::move(children.list);
  out.n_children = static_cast<std::int64_t>(node->children.size());
  out.children = node->pointers.data();
  out.release = release_node<T, Node>;
  out.private_data = node.release();
}

ArrowSchema make_schema(std::string format, std::string name, Children<ArrowSchema> children = {}) {
  auto node = std::make_unique<SchemaNode>();
  node->format = std::move(format);
  node->name = std::move(name);
  ArrowSchema out{};
  out.format = node->format.c_str();
  out.name = node->name.c_str();
  adopt(out, std::move(node), std::move(children));
  return out;
}

ArrowArray make_array(std::int64_t length, std::vector<const void*> buffers, std::shared_ptr<void> memory,
                      Children<ArrowArray> children = {}) {
  auto node = std::make_unique<ArrayNode>();
  node->buffers = std::move(buffers);
  node->memory = std::move(memory);
  ArrowArray out{};
  out.length = length;
  out.n_buffers = static_cast<std::int64_t>(node->buffers.size());
  out.buffers = node->buffers.data();
  adopt(out, std::move(node), std::move(children));
  return out;
}

template <class T>
Children<T> one(T child) {
  Children<T> out;
  out.list.reserve(1);
  out.list.push_back(child);
  return out;
}

// Bits of bytes, for bool.
std::shared_ptr<void> packed(const void* bytes, std::int64_t n) {
  const HostArray bits(uint8, {(n + 7) / 8});
  auto* to = static_cast<std::uint8_t*>(bits.storage().get());
  std::fill_n(to, bits.nbytes(), std::uint8_t{0});
  const auto* from = static_cast<const std::uint8_t*>(bytes);
  for (std::int64_t i = 0; i < n; ++i) to[i / 8] |= static_cast<std::uint8_t>((from[i] != 0 ? 1U : 0U) << (i % 8));
  return bits.storage();
}

struct ExportedColumn {
  Children<ArrowArray> array;
  Children<ArrowSchema> schema;
};

void check_exportable(const char* function, const std::string& argument, const Array& x) {
  if (!x.defined()) return;  // said where the value is asked for
  if (x.ndim() == 0) {
    throw ValueError(str(function, ": ", argument, " has rank 0; expected at least one dimension: x.reshape({1})"));
  }
  if (io::arrow_format(x.dtype()) == nullptr) {
    throw TypeError(str(function, ": ", argument, " has dtype ", dtype_name(x.dtype()),
                        ", which Arrow lacks; expected bool, integers, float16, float32 or float64: ",
                        is_complex(x.dtype()) ? "give real(x) and imag(x)" : "convert it with astype(x, float32)"));
  }
}

ExportedColumn export_column(const char* function, const std::string& argument, const Array& x, const std::string& name,
                             bool copy) {
  check_exportable(function, argument, x);
  const io::HostMemory m = io::whole_on_host(function, argument.c_str(), x, copy && x.defined() && x.dtype() != bool_);
  const std::int64_t count = size_of(m.shape);
  const std::shared_ptr<void> memory = m.dtype == bool_ ? packed(m.data, count) : m.owner;
  const void* data = m.dtype == bool_ ? memory.get() : m.data;
  const bool plain = m.shape.size() == 1;
  ExportedColumn out{one(make_array(count, {nullptr, data}, memory)),
                     one(make_schema(io::arrow_format(m.dtype), plain ? name : "item"))};
  for (std::size_t d = m.shape.size(); d-- > 1;) {
    std::int64_t lists = 1;
    for (std::size_t i = 0; i < d; ++i) lists *= m.shape[i];
    out.array.list = {make_array(lists, {nullptr}, nullptr, std::move(out.array))};
    out.schema.list = {make_schema(str("+w:", m.shape[d]), d == 1 ? name : "item", std::move(out.schema))};
  }
  return out;
}

void check_targets(const char* function, const ArrowArray* array, const ArrowSchema* schema) {
  if (array == nullptr) throw ValueError(str(function, ": array is null; expected a struct to write"));
  if (schema == nullptr) throw ValueError(str(function, ": schema is null; expected a struct to write"));
}

template <class T>
void give(Children<T>& from, T* to) noexcept {
  *to = from.list[0];
  from.list.clear();
}

}  // namespace

void to_arrow(const Array& x, ArrowArray* array, ArrowSchema* schema, const std::string& name, bool copy, const Loc&) {
  check_targets("to_arrow", array, schema);
  ExportedColumn out = export_column("to_arrow", "x", x, name, copy);
  give(out.array, array);
  give(out.schema, schema);
}

void to_arrow_table(const std::map<std::string, Array>& columns, ArrowArray* array, ArrowSchema* schema, bool copy,
                    const Loc&) {
  constexpr const char kFunction[] = "to_arrow_table";
  check_targets(kFunction, array, schema);
  std::int64_t rows = 0;
  const std::string* first = nullptr;
  Children<ArrowArray> arrays;
  Children<ArrowSchema> schemas;
  arrays.list.reserve(columns.size());
  schemas.list.reserve(columns.size());
  for (const auto& [name, x] : columns) {
    const std::string argument = str("columns[\"", name, "\"]");
    check_exportable(kFunction, argument, x);
    if (x.defined() && first == nullptr) {
      first = &name;
      rows = x.shape()[0];
    }
    if (x.defined() && x.shape()[0] != rows) {
      throw ValueError(str(kFunction, ": ", argument, " has ", x.shape()[0], " rows; expected ", rows,
                           ", as columns[\"", *first, "\"] has"));
    }
    ExportedColumn column = export_column(kFunction, argument, x, name, copy);
    give(column.array, &arrays.list.emplace_back());
    give(column.schema, &schemas.list.emplace_back());
  }
  Children<ArrowArray> table = one(make_array(rows, {nullptr}, nullptr, std::move(arrays)));
  Children<ArrowSchema> fields = one(make_schema("+s", "", std::move(schemas)));
  give(table, array);
  give(fields, schema);
}

}  // namespace tessera
