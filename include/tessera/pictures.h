// SPDX-License-Identifier: Apache-2.0
// Pictures for browsers: plans of communication as pages, meshes and shardings as SVG. Optional: `tessera/tessera.h`
// leaves it out. `tessera/visualize.h` draws in the terminal.
//
//   std::ofstream("plan.html") << ts::to_html(step.comm_plan(p, x, y), {.title = "training step", .mesh = mesh});
//   std::ofstream("change.html") << ts::to_html(before.comm_plan(x), after.comm_plan(x));
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/comm_plan.h"
#include "tessera/loc.h"
#include "tessera/mesh.h"
#include "tessera/shape.h"
#include "tessera/sharding.h"

namespace tessera {

/// What would remove a collective or make it smaller, in words; empty where nothing general holds.
std::string advice(const CommStep& step);

/// A value that a plan's page draws beside the mesh: an argument or a result.
struct PlacedValue {
  std::string name;  ///< "argument 0"
  std::string type;  ///< "f32[8,4]"
  Shape shape;
  ShardingPtr sharding;  ///< null: not drawn
};

/// What a page of a plan holds beside the collectives.
struct PlanPageOptions {
  std::string title = "Communication plan";
  std::optional<Mesh> mesh;         ///< drawn where it is given
  std::vector<PlacedValue> values;  ///< drawn below the mesh; many are cut
  /// The user's lines that the plan names are quoted where their files can be read.
  bool quote_sources = true;
};

/// A plan as one HTML page that needs no network: the mesh, the collectives in program order by source line, each with
/// its bytes, its cause and what to change, and the bytes of each line. Blocks and rows can be clicked, kinds of
/// collectives switched off, tables sorted. What the plan names is escaped, also where it comes from a program that is
/// not trusted.
std::string to_html(const CommPlan& plan, const PlanPageOptions& options = {});
/// Two plans side by side, with the bytes of each line before and after; lines are matched by file, line and op. Draws
/// as the function above.
std::string to_html(const CommPlan& before, const CommPlan& after, const PlanPageOptions& options = {});

/// Draws an array of rank 1 or 2: one rectangle per distinct shard at its place, with the devices that hold it. Throws
/// as `visualize_array_sharding`.
std::string sharding_svg(const ShardingPtr& sharding, const Shape& global_shape, const Loc& loc = Loc::current());
/// Draws devices at their mesh positions; one grid for each position along the axes before the last two. Of a longer
/// axis the first 16 positions are drawn, of more than 8 grids the first 8.
std::string mesh_svg(const Mesh& m, const Loc& loc = Loc::current());

}  // namespace tessera
