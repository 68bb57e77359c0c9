// SPDX-License-Identifier: Apache-2.0
// Training steps of published benchmarks, from their models' dimensions and their configurations.
#pragma once

#include <cstdint>

#include "planner/schedule.h"
#include "tessera/cluster_model.h"

namespace tessera::test {

/// A decoder with gated feed-forward layers.
struct Decoder {
  std::int64_t layers, width, heads, hidden;
  std::int64_t vocabulary = 32000;
  std::int64_t head_size = 128;
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  std::int64_t length = 2048;

  std::int64_t query() const { return heads * head_size; }
  std::int64_t key() const { return (kv_heads > 0 ? kv_heads : heads) * head_size; }
  double layer_parameters() const;
  double parameters() const;  ///< with the embedding
  /// Operations of products of one token's training step, attention to all positions included: what published
  /// utilizations count.
  double model_flops_per_token() const;
};

/// What of a layer is computed again for the backward pass.
enum class Remat {
  Full,               ///< all
  AllButProjections,  ///< all but queries, keys and values
  AllButProducts,     ///< what is no matrix product: attention's kernel and element-wise operations
  None,
};

/// Data parallel over `groups` of the outermost level, parameters sharded over `shards`, products over `tensor`.
struct TrainingRun {
  std::int64_t groups = 1, shards = 1, tensor = 1;
  double sequences = 1;  ///< per device
  Remat remat = Remat::Full;
  double gradient_bytes = 4;      ///< per element, as gradients are reduced
  bool tied = true;               ///< the embedding is the last product's matrix, too
  bool one_hot = true;            ///< the embedding is looked up by a product
  bool shards_outermost = false;  ///< parameters are sharded over the groups, too: there is no data parallelism
  DType products = DType::BF16;
};

struct StepPrediction {
  double seconds = 0;
  double utilization = 0;        ///< model operations over the device's peak for bfloat16
  double tokens_per_second = 0;  ///< per device
  planner::Timeline timeline;
};

planner::Schedule training_schedule(const Decoder& model, const TrainingRun& run);
/// The mesh is (groups, shards, tensor).
StepPrediction predict(const Decoder& model, const TrainingRun& run, const ClusterModel& cluster);

/// MaxText's models by `global_parameter_scale`: heads and feed-forward layers, width, and layers double in turn.
Decoder maxtext(std::int64_t scale);

}  // namespace tessera::test
