// SPDX-License-Identifier: Apache-2.0
// Calls of compiled programs: donation, and the run.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "array/array_stats.h"
#include "base/strings.h"
#include "program/program.h"
#include "tessera/error.h"

namespace tessera::program {

std::vector<bool> donated_arguments(const std::vector<int>& argnums, std::size_t count,
                                    const std::vector<std::size_t>& statics, const std::string& name) {
  std::vector<bool> out(count);
  auto n = static_cast<std::int64_t>(count);
  for (std::int64_t given : argnums) {
    std::int64_t k = given < 0 ? given + n : given;
    if (k < 0 || k >= n) {
      throw ValueError(str(name, ": donate_argnums has ", given, " but the call has ", n,
                           n == 1 ? " argument" : " arguments", "; expected ",
                           n == 0 ? std::string("an empty list") : str(-n, "..", n - 1)));
    }
    auto arg = static_cast<std::size_t>(k);
    if (std::find(statics.begin(), statics.end(), arg) != statics.end()) {
      throw ValueError(str(name, ": donate_argnums has ", given, " but argument ", k,
                           " is static and has no memory to give away; expected arguments that hold arrays"));
    }
    out[arg] = true;
  }
  return out;
}

std::string Program::arg_name(std::size_t i) const {
  if (i < options_.arg_names.size()) return options_.arg_names[i];
  return options_.arg_names.empty() ? str("operand ", i) : str("captured array ", i - options_.arg_names.size());
}

bool Program::donates() const {
  return std::find(options_.donate.begin(), options_.donate.end(), true) != options_.donate.end();
}
void Program::keep(std::size_t i) {
  if (i >= options_.donate.size()) return;
  options_.donate[i] = false;
  donated_as_[i] = nullptr;
}

// Memory that a result may take must not be read through another argument.
void Program::check_donation(const std::vector<Array>& args) const {
  if (!donates()) return;
  std::vector<std::size_t> order(args.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) {
    return std::pair(args[i].impl().get(), i) < std::pair(args[j].impl().get(), j);
  });
  auto donated = [&](std::size_t i) { return i < options_.donate.size() && options_.donate[i]; };
  for (std::size_t k = 1; k < order.size(); ++k) {
    std::size_t i = order[k - 1];
    std::size_t j = order[k];
    if (args[i].impl() != args[j].impl() || args[i].impl()->literal || !(donated(i) || donated(j))) continue;
    if (!donated(i)) std::swap(i, j);
    const auto& type = args[i].impl()->type;
    throw ValueError(str(options_.name, ": ", arg_name(i), " (", dtype_name(type.dtype), "[", join(type.shape, ","),
                         "]) is donated and is the same array as ", arg_name(j),
                         "; give a copy (copy(x)) for one of them, or leave it out of donate_argnums"));
  }
}

namespace {
// A scalar of the program that has more digits than this input takes is given as users see it.
bool too_wide(const Array& a, const ir::Graph& g, std::size_t i) {
  const ir::Type& t = a.impl()->type;
  return arrays::has_digits(t) && g.type(g.inputs[i]).dtype != t.dtype;
}
}  // namespace

std::vector<arrays::StoragePtr> Program::gather(const CompiledProgram& program, const std::vector<Array>& args) const {
  std::vector<arrays::StoragePtr> out;
  out.reserve(args.size());
  const char* name = options_.name.c_str();
  for (std::size_t i = 0; i < args.size(); ++i) {
    const auto& spec = program.in[i];
    arrays::StoragePtr data = arrays::data_of(args[i]);
    if (!data && !arrays::usable(args[i])) arrays::throw_unusable(args[i], name, arg_name(i));
    const bool narrows = too_wide(args[i], *graph_, i);
    if (spec.as_is && !narrows) {
      out.push_back(data ? std::move(data) : arrays::storage_of(args[i], name));
    } else if (spec.as_is) {
      out.push_back(arrays::storage_of(arrays::without_digits(args[i]), name));
    } else {
      const Array arg = narrows ? arrays::without_digits(args[i]) : args[i];
      Array moved = arg.impl()->literal ? arrays::place(arrays::literal_value(*arg.impl()), spec.sharding, true)
                                        : arrays::reshard(arg, spec.sharding, true);
      out.push_back(arrays::storage_of(moved, name));
    }
  }
  return out;
}

namespace {

// What a call in flight holds.
struct Run {
  std::shared_ptr<const CompiledProgram> program;
  std::vector<arrays::StoragePtr> in;
  std::vector<bool> donated;  // empty: none
  std::vector<arrays::StoragePtr> out;
  bool small = false;
  runtime::MemoryPool* copies_from = nullptr;  // where results that share memory are copied to; null: they may share
  std::atomic<bool> started{false};

  void execute();

 private:
  bool gives(std::size_t i) const { return !donated.empty() && donated[i]; }
  std::vector<runtime::ShardBuffers> take(std::vector<const runtime::ShardBuffers*>& borrowed);
};

bool sole_owner(const arrays::StoragePtr& storage) {
  if (storage.use_count() != 1) return false;
  // Its release and acquire order earlier owners' reads before the memory is written.
  arrays::StoragePtr synchronize = storage;  // NOLINT(performance-unnecessary-copy-initialization)
  return true;
}

std::vector<runtime::ShardBuffers> Run::take(std::vector<const runtime::ShardBuffers*>& borrowed) {
  std::vector<runtime::ShardBuffers> shard_buffers(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    auto& storage = in[i];
    storage->wait();
    const auto& spec = program->in[i];
    if (spec.by_position) {
      runtime::ShardNumbering map = runtime::shard_numbering(spec.layout, *program->mesh);
      for (auto position : map.first_position)
        shard_buffers[i].push_back(storage->shard_buffers[static_cast<std::size_t>(position)]);
    } else if (gives(i) && sole_owner(storage)) {
      shard_buffers[i] = std::move(storage->shard_buffers);
    } else if (small && !gives(i)) {
      borrowed[i] = &storage->shard_buffers;  // it runs before the caller goes on, who has the arguments
      continue;
    } else {
      shard_buffers[i] = storage->shard_buffers;  // memory that others let go of meanwhile can be used again
    }
    storage.reset();
  }
  return shard_buffers;
}

// What is held elsewhere, too, is copied.
void make_distinct(std::vector<runtime::ShardBuffers>& results, runtime::MemoryPool& pool) {
  for (auto& shards : results) {
    for (auto& shard : shards) {
      if (!shard || shard.use_count() == 1 || shard->data() == nullptr) continue;
      auto copy = pool.allocate(shard->nbytes());
      std::memcpy(copy->data(), shard->data(), static_cast<std::size_t>(shard->nbytes()));
      shard = std::move(copy);
    }
  }
}

void Run::execute() {
  started = true;
  std::vector<const runtime::ShardBuffers*> borrowed(in.size());
  std::vector<runtime::ShardBuffers> shard_buffers;
  try {
    shard_buffers = take(borrowed);
  } catch (const std::exception& e) {
    program->executable->give_up(e.what());
    throw;
  }
  auto results = program->executable->run(std::move(shard_buffers), borrowed);
  for (auto& storage : in) storage.reset();
  if (copies_from != nullptr) make_distinct(results, *copies_from);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto& spec = program->out[i];
    if (spec.by_position) {
      runtime::ShardNumbering map = runtime::shard_numbering(spec.layout, *program->mesh);
      for (auto k : map.of_position) out[i]->shard_buffers.push_back(results[i][static_cast<std::size_t>(k)]);
    } else {
      out[i]->shard_buffers = std::move(results[i]);
    }
    arrays::check_result(*spec.placement, spec.type.dtype, out[i]->shard_buffers, spec.by_position);
  }
}

// Arguments whose data goes to a run. A run that never begins gives it back.
class Donation {
 public:
  Donation(const std::vector<Array>& args, Run& run)
      : args_(args), run_(run), taken_(run.donated.size()), kept_(run.donated.size()) {}
  ~Donation() {
    for (std::size_t i = 0; i < taken_.size() && !run_.started; ++i) {
      if (taken_[i]) arrays::undo_donation(args_[i], kept_[i] ? kept_[i] : run_.in[i]);
    }
  }
  Donation(const Donation&) = delete;
  Donation& operator=(const Donation&) = delete;
  // False when the data is gone already. The run must be its only holder to write over it.
  bool take(std::size_t i, const std::shared_ptr<const std::string>& to) {
    arrays::StoragePtr data = arrays::donate(args_[i], to);
    taken_[i] = data != nullptr;
    if (data != run_.in[i]) kept_[i] = std::move(data);
    return taken_[i];
  }
  void submit(runtime::TaskScheduler& scheduler, runtime::Task task, runtime::EventPtr& event) {
    event = scheduler.submit(std::move(task));
    taken_.clear();
  }

 private:
  const std::vector<Array>& args_;
  Run& run_;
  std::vector<bool> taken_;
  std::vector<arrays::StoragePtr> kept_;  // of those that the run has a copy of, under another sharding
};

// The arrays whose data a run makes.
std::vector<Array> results_of(Run& run) {
  const CompiledProgram& program = *run.program;
  std::vector<Array> results;
  results.reserve(program.out.size());
  run.out.reserve(program.out.size());
  for (const auto& spec : program.out) {
    auto impl = std::make_shared<arrays::ArrayImpl>();
    impl->type = spec.type;
    impl->sharding = spec.sharding;
    impl->placement = spec.placement;
    impl->committed = program.committed;
    impl->replicas_equal = !spec.by_position;
    impl->storage = run.out.emplace_back(std::make_shared<arrays::Storage>());
    results.emplace_back(std::move(impl));
  }
  return results;
}

}  // namespace

std::vector<Array> Program::call(const std::vector<Array>& args, runtime::EventPtr* done) {
  check_donation(args);
  return run(compile(args), args, done);
}

// Everything that may fail for want of memory comes before the data of donated arguments is handed over.
std::vector<Array> Program::run(const std::shared_ptr<const CompiledProgram>& program, const std::vector<Array>& args,
                                runtime::EventPtr* done) {
  std::vector<arrays::StoragePtr> in = gather(*program, args);
  runtime::Task task{{}, {}, program->executable->small(), program->order};
  for (const auto& storage : in) {
    if (storage->ready && !storage->ready->ready()) task.after.push_back(storage->ready);
  }
  // It has ended when `submit` returns, so that nothing need be held for it.
  const bool here = task.small && task.after.empty() && program->order == runtime::TaskOrder::None;
  Run of_this_call;
  const std::shared_ptr<Run> of_the_task = here ? nullptr : std::make_shared<Run>();
  Run& run = here ? of_this_call : *of_the_task;
  if (here) {
    task.body = [&run] { run.execute(); };
  } else {
    task.body = [of_the_task] { of_the_task->execute(); };
  }
  run.program = program;
  run.in = std::move(in);
  run.small = task.small;
  if (options_.distinct_results) run.copies_from = program->memory.get();
  if (donates()) {
    run.donated = options_.donate;
    run.donated.resize(args.size());
  }
  std::vector<Array> results = results_of(run);
  runtime::EventPtr event;
  {
    Donation donation(args, run);
    for (std::size_t i = 0; i < run.donated.size(); ++i) {
      if (!run.donated[i] || args[i].impl()->literal || donation.take(i, donated_as_[i])) continue;
      arrays::throw_unusable(args[i], options_.name.c_str(), arg_name(i));  // another thread was faster
    }
    donation.submit(*program->scheduler, std::move(task), event);
  }
  // What has ended well needs no event.
  if (!here || event->error()) {
    for (const auto& result : results) result.impl()->storage->ready = event;
  }
  arrays::enlist(results);
  if (done != nullptr) *done = event;
  return results;
}

}  // namespace tessera::program
