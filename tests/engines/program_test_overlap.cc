// SPDX-License-Identifier: Apache-2.0
// The order of steps around those that wait for other processes.
#include <gtest/gtest.h>

#include "engines/cpu/overlap.h"

namespace tessera::cpu {
namespace {

using Labels = std::vector<std::string>;
using Values = std::vector<ir::ValueId>;

class Local final : public Step {
 public:
  Local(std::string name, Values in, Values out) : name_(std::move(name)) {
    reads = std::move(in);
    writes = std::move(out);
  }
  void run(Frame&) const override {}
  std::string label() const override { return name_; }

 private:
  std::string name_;
};

class Exchange final : public ExchangeStep {
 public:
  Exchange(std::string name, Values in, Values out) : name_(std::move(name)) {
    reads = std::move(in);
    writes = std::move(out);
  }
  bool exchanges() const override { return true; }
  std::unique_ptr<UnderWay> begin(Frame&) const override { return std::make_unique<UnderWay>(); }
  void end(Frame&, UnderWay&) const override {}
  std::string label() const override { return name_; }

 private:
  std::string name_;
};

class Steps {
 public:
  Steps& local(const std::string& name, Values in, Values out, bool ordered = false) {
    steps_.push_back(std::make_unique<Local>(name, std::move(in), std::move(out)));
    steps_.back()->ordered = ordered;
    return *this;
  }
  Steps& exchange(const std::string& name, Values in, Values out) {
    steps_.push_back(std::make_unique<Exchange>(name, std::move(in), std::move(out)));
    return *this;
  }
  Labels order() {
    Labels out;
    for (const auto& step : overlapped(std::move(steps_), 100).steps) out.push_back(step->label());
    return out;
  }

 private:
  std::vector<StepPtr> steps_;
};

TEST(Overlap, WhatNeedsNoResultRunsBeforeTheEnd) {
  auto order = Steps()
                   .local("product", {0}, {1})
                   .exchange("sum", {1}, {2})
                   .local("reader", {2}, {3})
                   .local("other", {0}, {4})
                   .local("both", {3, 4}, {5})
                   .order();
  EXPECT_EQ(order, (Labels{"product", "begin sum", "other", "end sum", "reader", "both"}));
}

TEST(Overlap, BeginsWhereTheOperandIsMade) {
  auto order = Steps()
                   .local("gradient", {0}, {1})
                   .local("more", {0}, {2})
                   .exchange("sum", {1}, {3})
                   .local("update", {3, 2}, {4})
                   .order();
  EXPECT_EQ(order, (Labels{"gradient", "begin sum", "more", "end sum", "update"}));
}

TEST(Overlap, OneAtATimeIsEarlyOnInputs) {
  auto order = Steps()
                   .exchange("first", {0}, {10})
                   .local("layer 1", {10}, {11})
                   .exchange("second", {1}, {12})
                   .local("layer 2", {11, 12}, {13})
                   .exchange("third", {2}, {14})
                   .local("layer 3", {13, 14}, {15})
                   .order();
  EXPECT_EQ(order, (Labels{"begin first", "begin second", "begin third", "end first", "layer 1", "end second",
                           "layer 2", "end third", "layer 3"}));
}

TEST(Overlap, ResultsOfOneAreOperandsOfTheNext) {
  auto order = Steps().exchange("a", {0}, {1}).exchange("b", {1}, {2}).local("last", {2}, {3}).order();
  EXPECT_EQ(order, (Labels{"begin a", "end a", "begin b", "end b", "last"}));
}

TEST(Overlap, EffectsKeepTheirOrder) {
  auto order =
      Steps().exchange("sum", {0}, {1}).local("print sum", {1}, {2}, true).local("print", {0}, {3}, true).order();
  EXPECT_EQ(order, (Labels{"begin sum", "end sum", "print sum", "print"}));
}

TEST(Overlap, FewArePostponedAndFewAreUnderWay) {
  Steps many;
  for (ir::ValueId i = 0; i < 20; ++i) {
    many.local("make", {0}, {1 + i}).exchange("sum", {1 + i}, {30 + i});
  }
  Labels order = many.order();
  int under_way = 0;
  int most = 0;
  for (const auto& label : order) {
    under_way += label == "begin sum" ? 1 : label == "end sum" ? -1 : 0;
    most = std::max(most, under_way);
  }
  EXPECT_EQ(order.size(), 60U);
  EXPECT_EQ(under_way, 0);
  EXPECT_EQ(most, 8);

  Steps chain;
  chain.exchange("sum", {0}, {1});
  for (ir::ValueId i = 1; i < 40; ++i) chain.local("needs it", {i}, {i + 1});
  chain.local("free", {0}, {50});
  order = chain.order();
  ASSERT_EQ(order.size(), 42U);
  EXPECT_EQ(order[1], "end sum");  // "free" is too far away
  EXPECT_EQ(order.back(), "free");
}

}  // namespace
}  // namespace tessera::cpu
