// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/cpu_engine.h"

#include <atomic>
#include <mutex>
#include <set>
#include <unordered_map>

#include "base/hash.h"
#include "base/strings.h"
#include "engines/cpu/step_program.h"
#include "runtime/verify_executable.h"
#include "tessera/error.h"

namespace tessera::cpu {

namespace {

// Steps of different processes meet under a tag: the program (its text and devices, so that every process finds the
// same number) and how many programs the same processes have run before. Where these once ran different ones, they meet
// again in the next.
class Tags {
 public:
  struct Next {
    std::int64_t tag, run;
  };
  // `program` and `processes` are the numbers below.
  Next next(std::size_t program, std::size_t processes) {
    std::lock_guard lock(mutex_);
    constexpr int kRunBits = runtime::Collectives::kRunBits;
    const std::int64_t place = programs_[processes]++;
    return {static_cast<std::int64_t>((program >> (kRunBits + 1)) << kRunBits) | (place & ((1 << kRunBits) - 1)),
            runs_[program]++};
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::size_t, std::int64_t> programs_;  // by processes
  std::unordered_map<std::size_t, std::int64_t> runs_;      // by program
};

struct Numbers {
  std::size_t program, processes;
};
Numbers numbers_of(const ir::Graph& g, const sharding::DeviceList& devices) {
  Numbers out{23, 23};
  for (unsigned char c : ir::to_string(g)) out.program = base::hash_mix(out.program, c);
  std::set<int> processes;
  for (const auto& d : devices.devices) {
    out.program = base::hash_mix(out.program, static_cast<std::size_t>(d.id()));
    processes.insert(d.process_index());
  }
  for (int p : processes) out.processes = base::hash_mix(out.processes, static_cast<std::size_t>(p));
  return out;
}

class CpuExecutable final : public runtime::Executable {
 public:
  CpuExecutable(std::shared_ptr<const Program> program, runtime::PortLayouts layouts,
                std::shared_ptr<runtime::MemoryPool> memory, std::shared_ptr<runtime::Collectives> collectives,
                std::shared_ptr<Tags> tags, Numbers numbers)
      : program_(std::move(program)),
        layouts_(std::move(layouts)),
        memory_(std::move(memory)),
        collectives_(std::move(collectives)),
        tags_(std::move(tags)),
        numbers_(numbers) {}

  const runtime::PortLayouts& layouts() const override { return layouts_; }
  std::vector<ShardBuffers> run(std::vector<ShardBuffers> args,
                                const std::vector<const ShardBuffers*>& borrowed) override {
    Run run{*memory_, collectives_.get()};
    if (!collectives_) return program_->run(std::move(args), run, {}, borrowed);
    auto [tag, number] = tags_->next(numbers_.program, numbers_.processes);
    run.tag = tag;
    run.number = number;
    run.processes = numbers_.processes;
    try {
      return program_->run(std::move(args), run, {}, borrowed);
    } catch (const std::exception& e) {
      collectives_->poison(run.tag, e.what());
      throw;
    }
  }
  void give_up(const char* why) override {
    if (collectives_) collectives_->poison(tags_->next(numbers_.program, numbers_.processes).tag, why);
  }
  bool small() const override {
    // Nanoseconds: some times what handing the task to another thread costs, which is more where the threads of other
    // processes ask for the same cores while they wait.
    constexpr double kSmall = 100000;
    constexpr double kSmallAcross = 400000;
    if (!collectives_) return program_->cost() < kSmall;
    return collectives_->separate_programs() && program_->cost() < kSmallAcross;
  }
  std::string text() const override { return program_->text(); }

 private:
  std::shared_ptr<const Program> program_;
  runtime::PortLayouts layouts_;
  std::shared_ptr<runtime::MemoryPool> memory_;
  std::shared_ptr<runtime::Collectives> collectives_;  // null unless the program spans processes
  std::shared_ptr<Tags> tags_;
  Numbers numbers_;
};

class PlainCpuExecutable final : public runtime::PlainExecutable {
 public:
  PlainCpuExecutable(std::shared_ptr<const Program> program, std::shared_ptr<runtime::MemoryPool> memory)
      : program_(std::move(program)), memory_(std::move(memory)) {}
  std::vector<ShardBuffers> run(std::vector<ShardBuffers> args, std::uint64_t shake) override {
    Run run{*memory_};
    run.shake = shake;
    return program_->run(std::move(args), run);
  }

 private:
  std::shared_ptr<const Program> program_;
  std::shared_ptr<runtime::MemoryPool> memory_;
};

class CpuEngine final : public runtime::Engine, public runtime::PlainCompiler {
 public:
  CpuEngine(int process_index, std::shared_ptr<runtime::MemoryPool> memory,
            std::shared_ptr<runtime::Collectives> collectives)
      : process_index_(process_index), memory_(std::move(memory)), collectives_(std::move(collectives)) {}

  std::shared_ptr<runtime::Executable> compile(const ir::Module& module,
                                               std::shared_ptr<const sharding::DeviceList> devices) override {
    const ir::GraphPtr& graph = module.graph;
    Owners owners = owners_of(*graph, *devices);
    bool distributed = owners.distributed();
    Context context(graph->mesh, std::move(owners), memory_);
    auto program = Program::compile(graph, context);
    return std::make_shared<CpuExecutable>(std::move(program), runtime::port_layouts(*graph), memory_,
                                           distributed ? collectives_ : nullptr, tags_,
                                           distributed ? numbers_of(*graph, *devices) : Numbers{});
  }
  std::shared_ptr<runtime::PlainExecutable> compile_plainly(
      ir::GraphPtr graph, std::shared_ptr<const sharding::DeviceList> devices) override {
    Context context(graph->mesh, owners_of(*graph, *devices), memory_, true);
    if (context.distributed()) {
      throw UnimplementedError("compile_plainly: the devices belong to several processes; expected those of one");
    }
    return std::make_shared<PlainCpuExecutable>(Program::compile(graph, context), memory_);
  }
  std::shared_ptr<runtime::MemoryPool> memory() override { return memory_; }

 private:
  Owners owners_of(const ir::Graph& graph, const sharding::DeviceList& devices) const {
    if (!graph.mesh || graph.mesh->num_positions() != static_cast<std::int64_t>(devices.size())) {
      throw StateError(str("compile: the program has ", graph.mesh ? graph.mesh->num_positions() : 0,
                           " mesh positions for ", devices.size(), " devices"));
    }
    Owners owners;
    owners.self = process_index_;
    for (const auto& d : devices.devices) owners.process_of.push_back(d.process_index());
    return owners;
  }

  int process_index_;
  std::shared_ptr<runtime::MemoryPool> memory_;
  std::shared_ptr<runtime::Collectives> collectives_;
  std::shared_ptr<Tags> tags_ = std::make_shared<Tags>();
};

}  // namespace

std::shared_ptr<runtime::Engine> make_engine(int process_index, std::shared_ptr<runtime::MemoryPool> memory,
                                             std::shared_ptr<runtime::Collectives> collectives) {
  return std::make_shared<CpuEngine>(process_index, std::move(memory), std::move(collectives));
}

}  // namespace tessera::cpu
