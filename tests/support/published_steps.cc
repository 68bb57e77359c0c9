// SPDX-License-Identifier: Apache-2.0
#include "support/published_steps.h"

#include <cmath>
#include <memory>

namespace tessera::test {

namespace {

using planner::Collective;
using planner::Schedule;
using planner::Task;

constexpr double kHalf = 2;    // bytes of a bfloat16
constexpr double kSingle = 4;  // and of a float32
// Element-wise operations for each score of attention: scaling, masking, maximum, exponential, sum.
constexpr double kScoreForward = 20;
// Backward, in two kernels (queries; keys and values), each of which computes the scores again.
constexpr double kScoreBackward = 50;

// One device's part of a layer and its collectives.
class Layer {
 public:
  Layer(const Decoder& m, const TrainingRun& r) : m_(m), r_(r) {
    tokens_ = r.sequences * static_cast<double>(m.length * r.tensor);
    width_ = static_cast<double>(m.width);
    query_ = split(m.query());
    key_ = split(m.key());
    hidden_ = split(m.hidden);
  }

  Schedule forward() {
    gather_weights();
    attention_forward();
    feed_forward(true);
    return done();
  }
  Schedule backward() {
    gather_weights();
    if (r_.remat == Remat::Full || r_.remat == Remat::AllButProjections) {
      attention_forward(r_.remat == Remat::Full);
      feed_forward(false);  // the layer's last product is not needed again
    }
    if (r_.remat == Remat::AllButProducts) flash(false);
    product_backward("down", hidden_, width_);
    elements("activation", 8 * hidden_, 5);
    product_backward("gate", width_, hidden_);
    product_backward("up", width_, hidden_);
    reduce("up");
    elements("norm", 6 * width_, 10);
    product_backward("out", query_, width_);
    flash(true);
    product_backward("query", width_, query_);
    product_backward("key", width_, key_);
    product_backward("value", width_, key_);
    reduce("query");
    elements("norm", 6 * width_, 10);
    return done();
  }
  Schedule ends(double vocabulary) {
    vocabulary = vocabulary / static_cast<double>(r_.tensor);
    weight("embedding", width_ * vocabulary);
    if (r_.one_hot) product("embed", width_, vocabulary);
    product("logits", width_, vocabulary);
    memory("loss", tokens_ * vocabulary * kSingle * 4);
    product("logits", width_, vocabulary);
    product("logits", width_, vocabulary);
    if (r_.one_hot) product("embed", width_, vocabulary);
    gradient("embedding", width_ * vocabulary);
    if (!r_.tied) gradient("logits", width_ * vocabulary);
    // Adam on the shards: parameters and two moments read and written, gradients read.
    const double own =
        m_.parameters() / static_cast<double>(r_.shards * r_.tensor * (r_.shards_outermost ? r_.groups : 1));
    memory("optimizer", own * 7 * kSingle);
    return done();
  }

 private:
  double split(std::int64_t n) const { return static_cast<double>(n) / static_cast<double>(r_.tensor); }
  Dims shard_axes() const { return r_.shards_outermost ? Dims{0, 1} : Dims{1}; }
  Schedule done() { return std::move(out_); }

  std::int32_t push(Task t) {
    out_.tasks.push_back(std::move(t));
    return static_cast<std::int32_t>(out_.tasks.size()) - 1;
  }
  static Task task(const std::string& name) {
    Task t;
    t.name = name;
    t.dtype = DType::BF16;
    t.after_round = true;
    return t;
  }
  void memory(const std::string& name, double bytes) {
    Task t = task(name);
    t.bytes = bytes;
    push(std::move(t));
  }
  void elements(const std::string& name, double per_token, double operations) {
    Task t = task(name);
    t.bytes = tokens_ * per_token * kHalf;
    t.vector = tokens_ * per_token * operations / 4;
    push(std::move(t));
  }
  void collective(const std::string& name, Collective kind, double bytes, Dims axes, std::vector<std::int32_t> after) {
    Task t = task(name);
    t.is_collective = true;
    t.collective = kind;
    t.bytes = bytes;
    t.axes = std::move(axes);
    t.after_round = kind != Collective::AllGather;
    t.after = std::move(after);
    weights_[name] = push(std::move(t));
  }
  void weight(const std::string& name, double elements) {
    collective(name, Collective::AllGather, elements * kHalf, shard_axes(), {});
  }
  void gather_weights() {
    weight("query", width_ * query_);
    weight("key", width_ * key_);
    weight("value", width_ * key_);
    weight("out", width_ * query_);
    weight("gate", width_ * hidden_);
    weight("up", width_ * hidden_);
    weight("down", width_ * hidden_);
  }
  std::int32_t product(const std::string& name, double in, double out) {
    Task t = task(name);
    t.dtype = r_.products;
    t.products = 2 * tokens_ * in * out;
    t.bytes = (tokens_ * (in + out) + in * out) * kHalf;
    if (auto it = weights_.find(name); it != weights_.end()) t.after = {it->second};
    return push(std::move(t));
  }
  void gradient(const std::string& name, double elements) {
    const auto last = static_cast<std::int32_t>(out_.tasks.size()) - 1;
    const double bytes = elements * r_.gradient_bytes;
    collective(name + " gradient", Collective::ReduceScatter, bytes, shard_axes(), {last});
    const auto scattered = static_cast<std::int32_t>(out_.tasks.size()) - 1;
    if (r_.groups == 1 || r_.shards_outermost) return;
    collective(name + " gradient", Collective::AllReduce, bytes / static_cast<double>(r_.shards), {0}, {scattered});
  }
  void product_backward(const std::string& name, double in, double out) {
    product(name, out, in);
    product(name, in, out);
    gradient(name, in * out);
  }
  // Completes a product whose contracted dimension is split over `tensor`.
  void reduce(const std::string& name) {
    if (r_.tensor == 1) return;
    const auto last = static_cast<std::int32_t>(out_.tasks.size()) - 1;
    collective(name + " sum", Collective::AllReduce, tokens_ * width_ * kHalf, {2}, {last});
  }
  void flash(bool backward) {
    Task t = task("attention");
    // Scores of positions before each; backward, five products where forward has two, two of them twice.
    const double scores = tokens_ * split(m_.heads) * static_cast<double>(m_.length) / 2;
    t.products = scores * static_cast<double>(m_.head_size) * 2 * (backward ? 7 : 2);
    t.vector = scores * (backward ? kScoreBackward : kScoreForward);
    t.bytes = tokens_ * (2 * query_ + 2 * key_) * kHalf * (backward ? 2 : 1);
    Task arithmetic = t;  // vector units wait for the products of their tile, and those for them
    arithmetic.products = 0;
    arithmetic.bytes = 0;
    t.vector = 0;
    push(std::move(t));
    push(std::move(arithmetic));
  }
  void attention_forward(bool projections = true) {
    elements("norm", 3 * width_, 5);
    if (projections) {
      product("query", width_, query_);
      product("key", width_, key_);
      product("value", width_, key_);
    }
    elements("rotation", 2 * (query_ + key_), 6);
    flash(false);
    product("out", query_, width_);
    reduce("out");
  }
  void feed_forward(bool last) {
    elements("norm", 3 * width_, 5);
    product("gate", width_, hidden_);
    product("up", width_, hidden_);
    elements("activation", 3 * hidden_, 8);
    if (!last) return;
    product("down", hidden_, width_);
    reduce("down");
  }

  const Decoder& m_;
  const TrainingRun& r_;
  double tokens_, width_, query_, key_, hidden_;
  Schedule out_;
  std::map<std::string, std::int32_t> weights_;
};

Task loop(const std::string& name, Schedule body, std::int64_t times) {
  Task t;
  t.name = name;
  t.body = std::make_shared<const Schedule>(std::move(body));
  t.times = times;
  return t;
}

}  // namespace

double Decoder::layer_parameters() const {
  return static_cast<double>(width) * static_cast<double>(2 * query() + 2 * key() + 3 * hidden);
}
double Decoder::parameters() const {
  return static_cast<double>(layers) * layer_parameters() + static_cast<double>(vocabulary * width);
}
double Decoder::model_flops_per_token() const {
  return 6 * parameters() + 12 * static_cast<double>(layers) * static_cast<double>(query() * length);
}

planner::Schedule training_schedule(const Decoder& model, const TrainingRun& run) {
  Schedule out;
  out.tasks.push_back(loop("forward", Layer(model, run).forward(), model.layers));
  out.tasks.push_back(loop("ends", Layer(model, run).ends(static_cast<double>(model.vocabulary)), 1));
  out.tasks.push_back(loop("backward", Layer(model, run).backward(), model.layers));
  for (std::size_t i = 1; i < out.tasks.size(); ++i) out.tasks[i].after = {static_cast<std::int32_t>(i) - 1};
  return out;
}

StepPrediction predict(const Decoder& model, const TrainingRun& run, const ClusterModel& cluster) {
  StepPrediction out;
  out.timeline = planner::run(training_schedule(model, run), cluster, {run.groups, run.shards, run.tensor});
  out.seconds = out.timeline.seconds;
  const double tokens = run.sequences * static_cast<double>(model.length);
  out.tokens_per_second = tokens / out.seconds;
  out.utilization = tokens * model.model_flops_per_token() / out.seconds / cluster.device.flops.at(DType::BF16);
  return out;
}

Decoder maxtext(std::int64_t scale) {
  std::int64_t doublings = 0;
  while ((std::int64_t{1} << doublings) < scale) ++doublings;
  const std::int64_t whole = doublings / 3;
  const std::int64_t heads = whole + (doublings % 3 > 0 ? 1 : 0);
  const std::int64_t width = whole + (doublings % 3 > 1 ? 1 : 0);
  return {16 << whole, 2048 << width, 16 << heads, 7168 << heads};
}

}  // namespace tessera::test
