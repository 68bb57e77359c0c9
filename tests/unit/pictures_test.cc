// SPDX-License-Identifier: Apache-2.0
// Plans as pages, meshes and shardings as SVG: what they hold, and that nothing of a program can break out of them.
// tests/pages/check_pages.py clicks through a page in a browser.
#include "tessera/pictures.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/checkpoint_files.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

// Every element that is opened is closed, in order; script and style are left out.
void expect_balanced(std::string html) {
  for (const char* raw : {"script", "style"}) {
    const std::string open = std::string("<") + raw + ">";
    const std::string close = std::string("</") + raw + ">";
    for (std::size_t at = html.find(open); at != std::string::npos; at = html.find(open)) {
      html.erase(at, html.find(close, at) + close.size() - at);
    }
  }
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /\n", 1));
    if (tag[0] == '!' || tag.back() == '/' || name == "meta" || name == "br") continue;
    if (tag[0] != '/') {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << tag;
    ASSERT_EQ("/" + open.back(), tag) << html.substr(at > 200 ? at - 200 : 0, 260);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty()) << open.back();
}

CommStep step(const std::string& op, std::int64_t bytes, const char* file, std::uint32_t line) {
  CommStep s;
  s.op = op;
  s.axes = {"x"};
  s.bytes_per_device = bytes;
  s.value = "f32[8,4]";
  s.equation = "dot_general";
  s.loc = {file, line};
  s.reason = "operand 1 of dot_general needs [y, -]";
  return s;
}

struct Pictures : ::testing::Test {
  ClientScope eight{Client::cpu({.devices = 8})};
  Mesh mesh = make_mesh({4, 2}, {"data", "model"});
};

TEST_F(Pictures, APlansPageHasEveryCollectiveWithBytesCauseAndWhatToChange) {
  auto step = jit([](Array x, Array w) { return sum(tanh(matmul(x, w))); });
  Array x = device_put(zeros({8, 4}), NamedSharding(mesh, P("data", "model")));
  Array w = device_put(zeros({4, 6}), NamedSharding(mesh, P(none, "model")));
  CommPlan plan = step.comm_plan(x, w);
  ASSERT_FALSE(plan.empty());
  const std::string html = to_html(
      plan, {.title = "training step", .mesh = mesh, .values = {{"argument 0", "f32[8,4]", {8, 4}, x.sharding()}}});
  expect_balanced(html);
  EXPECT_NE(html.find("<title>training step</title>"), std::string::npos);
  EXPECT_EQ(count(html, "class=\"detail\""), plan.steps().size());
  EXPECT_EQ(count(html, "<rect class=\"block"), plan.steps().size());
  EXPECT_EQ(count(html, "<tr tabindex=\"0\" data-step="), plan.steps().size());
  for (const CommStep& s : plan.steps()) {
    EXPECT_FALSE(advice(s).empty()) << s.op;
    EXPECT_NE(html.find(advice(s)), std::string::npos);
    EXPECT_NE(html.find("pictures_test.cc:" + std::to_string(s.loc.line)), std::string::npos);
  }
  EXPECT_NE(html.find("P(&#39;data&#39;, &#39;model&#39;)"), std::string::npos);
  EXPECT_NE(html.find("data=3"), std::string::npos) << "the mesh";
  // Nothing is fetched.
  EXPECT_EQ(count(html, "http"), count(html, "xmlns=\"http://www.w3.org/2000/svg\""));
  for (const char* word : {"src=", "href=", "@import", "url("}) EXPECT_EQ(count(html, word), 0U) << word;
}

TEST_F(Pictures, SourceLinesAreQuotedWhereTheyCanBeRead) {
  test::TempFolder folder;
  const std::string file = folder.path() + "/model.py";
  std::ofstream(file) << "first\nsecond\ny = x @ w  # <here>\nfourth\n";
  const CommPlan plan({step("all_gather", 96, file.c_str(), 3)});
  const std::string html = to_html(plan);
  expect_balanced(html);
  EXPECT_NE(html.find("<span class=\"this\">3  y = x @ w  # &lt;here&gt;</span>"), std::string::npos);
  EXPECT_EQ(to_html(plan, {.quote_sources = false}).find("x @ w"), std::string::npos);
  // No file, a folder, a line beyond the end, and a pipe, which would never end.
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& other : {folder.path() + "/none", folder.path(), pipe}) {
    EXPECT_EQ(to_html(CommPlan({step("all_gather", 96, other.c_str(), 3)})).find("<pre>"), std::string::npos) << other;
  }
  expect_balanced(to_html(CommPlan({step("all_gather", 96, file.c_str(), 4'000'000'000U)})));
}

TEST_F(Pictures, NamesOfAProgramCannotBreakOut) {
  const std::string evil = "\"><script>alert(1)</script><b x='";
  CommStep s = step(evil, 8, "x\"><img onerror=alert(1)>.py", 3);
  s.axes = {evil};
  s.value = s.equation = s.reason = evil;
  const std::string scope = evil;
  s.loc.scope = &scope;
  const std::string html =
      to_html(CommPlan({s}), {.title = evil, .values = {{evil, evil, {8}, NamedSharding(mesh, P("data")).share()}}});
  expect_balanced(html);
  EXPECT_EQ(count(html, "<script>"), 1U) << "the page's own";
  EXPECT_EQ(count(html, "<img"), 0U);
}

TEST_F(Pictures, TwoPlansAreCompared) {
  const CommPlan before({step("all_gather", 4096, "m.py", 3), step("all_reduce", 64, "m.py", 9)});
  const CommPlan after({step("reduce_scatter", 1024, "m.py", 3), step("all_reduce", 64, "m.py", 9)});
  const std::string html = to_html(before, after);
  expect_balanced(html);
  EXPECT_NE(html.find("-4,096 gone"), std::string::npos);
  EXPECT_NE(html.find("+1,024 new"), std::string::npos);
  EXPECT_NE(html.find("<td class=\"n less\" data-sort=\"-3072\">-3,072</td>"), std::string::npos) << "the total";
  EXPECT_EQ(count(html, "<rect class=\"block"), 4U);
}

TEST_F(Pictures, APlanWithoutCommunicationSaysSo) {
  const std::string html = to_html(CommPlan());
  expect_balanced(html);
  EXPECT_NE(html.find("No communication"), std::string::npos);
  expect_balanced(to_html(CommPlan(), CommPlan()));
}

TEST_F(Pictures, UnknownCountsAndManyStepsAreDrawn) {
  std::vector<CommStep> steps;
  for (std::uint32_t i = 0; i < 500; ++i) steps.push_back(step("all_to_all", i, "m.py", 1 + i % 7));
  steps[0].times = -1;
  steps[1].times = 3;
  steps[2].loc = {};
  const std::string html = to_html(CommPlan(steps));
  expect_balanced(html);
  EXPECT_NE(html.find("how often is known when it runs"), std::string::npos);
  EXPECT_EQ(count(html, "<rect class=\"block"), 500U);
}

TEST_F(Pictures, ShardingsAreDrawnAtTheirPlaces) {
  const std::string svg = sharding_svg(NamedSharding(mesh, P("data")).share(), {8, 4});
  expect_balanced(svg);
  EXPECT_EQ(count(svg, "<rect"), 4U);
  EXPECT_NE(svg.find("[2:4, 0:4] on 2,3"), std::string::npos);
  EXPECT_EQ(count(sharding_svg(NamedSharding(mesh, P("data", "model")).share(), {8, 4}), "<rect"), 8U);
  EXPECT_EQ(count(sharding_svg(NamedSharding(mesh, P()).share(), {5}), "<rect"), 1U);
  EXPECT_EQ(count(sharding_svg(NamedSharding(mesh, P()).share(), {0, 5}), "<rect"), 0U);
  EXPECT_THROW(sharding_svg(NamedSharding(mesh, P()).share(), {2, 2, 2}), ValueError);
  EXPECT_THROW(sharding_svg(nullptr, {2}), ValueError);
  EXPECT_THROW(sharding_svg(NamedSharding(mesh, P("data")).share(), {5}), IndivisibleError);
}

TEST_F(Pictures, MeshesAreDrawnWithTheirAxes) {
  const std::string svg = mesh_svg(mesh);
  expect_balanced(svg);
  EXPECT_EQ(count(svg, "<rect"), 8U);
  for (const char* label : {"data=0", "data=3", "model=1", "cpu 7"})
    EXPECT_NE(svg.find(label), std::string::npos) << label;
  ClientScope many(Client::cpu({.devices = 1024}));
  const std::string cut = mesh_svg(make_mesh({16, 2, 32}, {"z", "y", "x"}));
  expect_balanced(cut);
  EXPECT_EQ(count(cut, "<rect"), 8U * 2 * 16);
  EXPECT_NE(cut.find("the first of 1024 devices"), std::string::npos);
  EXPECT_NE(cut.find("z=7"), std::string::npos);
}

}  // namespace
}  // namespace tessera
