// SPDX-License-Identifier: Apache-2.0
// A plan, or two of them, as an HTML page.
#include <algorithm>
#include <map>
#include <set>

#include "base/strings.h"
#include "pictures/page.h"
#include "tessera/pictures.h"

namespace tessera {

namespace {

using pictures::escaped;
using pictures::grouped;
using pictures::LineOfPlan;
using pictures::short_bytes;
using pictures::total_bytes;

constexpr std::size_t kMostValues = 12;

struct Part {
  std::string heading;  // "before"; empty where the page has one plan
  std::string prefix;
  const CommPlan* plan;
  std::vector<LineOfPlan> lines;
};

std::string card(const std::string& value, const std::string& name, const std::string& title = "") {
  return str("<div class=\"card\" title=\"", escaped(title), "\"><b>", escaped(value), "</b><span>", escaped(name),
             "</span></div>\n");
}

std::string counted(std::size_t n, const char* one, const char* many) { return str(n == 1 ? one : many); }

std::string cards(const Part& p, const PlanPageOptions& o) {
  std::string out = "<div class=\"cards\">\n";
  const std::int64_t bytes = p.plan->bytes_per_device();
  out += card(short_bytes(bytes), "received per device and call", str(grouped(bytes), " bytes"));
  const std::size_t n = p.plan->steps().size();
  out += card(std::to_string(n), counted(n, "collective", "collectives"));
  out += card(std::to_string(p.lines.size()), counted(p.lines.size(), "source line", "source lines"));
  if (o.mesh) out += card(std::to_string(o.mesh->devices_flat().size()), "devices", to_string(*o.mesh));
  const auto most = std::ranges::max_element(p.lines, {}, &LineOfPlan::bytes);
  if (most != p.lines.end() && bytes > 0) {
    out +=
        card(str(most->bytes * 100 / bytes, " %"), str("of it at ", most->where), str(grouped(most->bytes), " bytes"));
  }
  return out + "</div>\n";
}

// Of a named sharding the spec alone: the mesh is drawn beside it.
std::string spec_of(const Sharding& s) {
  const auto* named = dynamic_cast<const NamedSharding*>(&s);
  return named != nullptr ? to_string(named->spec()) : s.text();
}

std::string mesh_section(const PlanPageOptions& o) {
  if (!o.mesh && o.values.empty()) return {};
  std::string out = "<section><h2>Mesh and placement</h2>\n<div class=\"drawings\">\n";
  if (o.mesh)
    out += str("<figure>", mesh_svg(*o.mesh), "<figcaption>", escaped(to_string(*o.mesh)), "</figcaption></figure>\n");
  std::size_t drawn = 0;
  for (const PlacedValue& v : o.values) {
    if (!v.sharding || v.shape.empty() || v.shape.size() > 2) continue;
    if (++drawn > kMostValues) break;
    out += str("<figure>", sharding_svg(v.sharding, v.shape), "<figcaption><b>", escaped(v.name), "</b> ",
               escaped(v.type), "<br>", escaped(spec_of(*v.sharding)), "</figcaption></figure>\n");
  }
  out += "</div>\n";
  if (drawn > kMostValues) out += str("<p class=\"muted\">The first ", kMostValues, " values are drawn.</p>\n");
  return out + "</section>\n";
}

// Kinds of collectives as switches, with their colours.
std::string switches(const std::vector<Part>& parts) {
  std::map<std::string, std::int64_t> kinds;
  for (const Part& p : parts) {
    for (const CommStep& s : p.plan->steps()) kinds[s.op] += total_bytes(s);
  }
  std::string out = "<div class=\"switches\">\n";
  for (const auto& [op, bytes] : kinds) {
    out +=
        str("<button class=\"switch\" data-switch=\"", escaped(op), "\" aria-pressed=\"true\"><i class=\"op-",
            escaped(op), "\"></i>", escaped(op), " <span class=\"muted\">", short_bytes(bytes), "</span></button>\n");
  }
  return out + "</div>\n";
}

std::string source_of(const LineOfPlan& line, bool quote) {
  const auto text = quote ? pictures::quoted(line.file, line.line, 0) : std::vector<std::string>{};
  return text.empty() ? "" : str("<code>", escaped(text[0]), "</code>");
}

std::string cell(std::int64_t n) {
  return str("<td class=\"n\" data-sort=\"", n, "\" title=\"", short_bytes(n), "\">", grouped(n), "</td>");
}

std::string lines_table(const Part& p, const PlanPageOptions& o) {
  const std::int64_t all = std::max<std::int64_t>(1, p.plan->bytes_per_device());
  std::vector<const LineOfPlan*> sorted;
  for (const LineOfPlan& l : p.lines) sorted.push_back(&l);
  std::ranges::stable_sort(sorted, std::greater{}, &LineOfPlan::bytes);
  std::string out =
      "<table class=\"lines\"><thead><tr><th>line</th><th>source</th><th>collectives</th><th class=\"n\">bytes per "
      "device</th><th>share</th></tr></thead><tbody>\n";
  for (const LineOfPlan* l : sorted) {
    const std::string percent = pictures::number(100.0 * static_cast<double>(l->bytes) / static_cast<double>(all));
    out += str("<tr><td title=\"", escaped(l->file), "\">", escaped(l->where),
               l->label.empty() ? "" : "<br><span class=\"muted\">", escaped(l->label),
               l->label.empty() ? "" : "</span>", "</td><td>", source_of(*l, o.quote_sources), "</td><td class=\"n\">",
               l->steps.size(), "</td>", cell(l->bytes), "<td><div class=\"bar\"><i style=\"width:", percent,
               "%\"></i></div> ", percent, " %</td></tr>\n");
  }
  return out + "</tbody></table>\n";
}

std::string detail_of(const Part& p, std::size_t k, bool quote) {
  const CommStep& s = p.plan->steps()[k];
  const bool known = s.loc.file != nullptr && s.loc.line > 0;
  std::string out = str("<div class=\"detail\" data-detail=\"", p.prefix, k, "\">\n<h3><i class=\"op-", escaped(s.op),
                        "\"></i>", escaped(s.op), " of ", escaped(s.value), "</h3>\n<p><b>",
                        grouped(s.bytes_per_device), "</b> bytes per device");
  if (s.times < 0) out += ", each time; how often is known when it runs";
  if (s.times > 1) out += str(", ", s.times, " times: <b>", grouped(total_bytes(s)), "</b>");
  out += str(", over ", s.axes.empty() ? "no axis" : escaped(join(s.axes, ", ")), "</p>\n");
  out += str("<p><span class=\"muted\">cause</span> ", escaped(s.reason), "</p>\n");
  if (const std::string help = advice(s); !help.empty())
    out += str("<p><span class=\"muted\">what to change</span> ", escaped(help), "</p>\n");
  out += str("<p><span class=\"muted\">where</span> ", escaped(s.equation), known ? " at " : "",
             known ? escaped(to_string(s.loc)) : "", "</p>\n");
  constexpr std::uint32_t kAround = 2;
  const auto text = quote && known ? pictures::quoted(s.loc.file, s.loc.line, kAround) : std::vector<std::string>{};
  if (!text.empty()) {
    out += "<pre>";
    std::uint32_t n = s.loc.line > kAround ? s.loc.line - kAround : 1;
    for (const std::string& line : text) {
      out += str("<span", n == s.loc.line ? " class=\"this\"" : "", ">", n, "  ", escaped(line), "</span>\n");
      ++n;
    }
    out += "</pre>\n";
  }
  return out + "</div>\n";
}

std::string steps_table(const Part& p) {
  std::string out =
      "<table class=\"steps\"><thead><tr><th class=\"n\">#</th><th>collective</th><th>axes</th><th>value</th><th "
      "class=\"n\">bytes</th><th class=\"n\">times</th>"
      "<th class=\"n\">bytes per call</th><th>where</th><th>why</th><th>what to change</th></tr></thead><tbody>\n";
  for (std::size_t k = 0; k < p.plan->steps().size(); ++k) {
    const CommStep& s = p.plan->steps()[k];
    out += str("<tr tabindex=\"0\" data-step=\"", p.prefix, k, "\" data-op=\"", escaped(s.op),
               "\"><td class=\"n\" data-sort=\"", k, "\">", k + 1, "</td><td><i class=\"op-", escaped(s.op), "\"></i>",
               escaped(s.op), "</td><td>", escaped(join(s.axes, ",")), "</td><td>", escaped(s.value), "</td>",
               cell(s.bytes_per_device), "<td class=\"n\" data-sort=\"", s.times, "\">",
               s.times < 0 ? "?" : std::to_string(s.times), "</td>", cell(total_bytes(s)), "<td>", escaped(s.equation),
               " at ", escaped(pictures::where(s)), "</td><td>", escaped(s.reason), "</td><td>", escaped(advice(s)),
               "</td></tr>\n");
  }
  return out + "</tbody></table>\n";
}

std::string plan_sections(const Part& p, const PlanPageOptions& o) {
  const std::string of = p.heading.empty() ? "" : str(" ", p.heading);
  if (p.plan->empty())
    return str("<section><h2>Timeline", of,
               "</h2>\n<p>No communication: every device computes with what it has.</p></section>\n");
  std::string out = str(
      "<section><h2>Timeline", of, "</h2>\n<div class=\"scroll\">", timeline_svg(*p.plan, p.lines, p.prefix),
      "</div>\n",
      "<div class=\"details\"><p class=\"muted hint\">Click a block or a row for its cause and what to change.</p>\n");
  for (std::size_t k = 0; k < p.plan->steps().size(); ++k) out += detail_of(p, k, o.quote_sources);
  out += "</div></section>\n";
  out += str("<section><h2>Bytes by source line", of, "</h2>\n<div class=\"scroll\">", lines_table(p, o),
             "</div></section>\n");
  out += str("<section><h2>Collectives", of, "</h2>\n<div class=\"scroll\">", steps_table(p), "</div></section>\n");
  return out;
}

std::string page(const std::string& title, const std::string& body) {
  return str(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n"
      "<title>",
      escaped(title), "</title>\n<style>\n", pictures::style(), "</style>\n</head>\n<body>\n<main>\n<h1>",
      escaped(title), "</h1>\n", body, "</main>\n<script>\n", pictures::script(), "</script>\n</body>\n</html>\n");
}

// Bytes of each line and op under both plans.
std::string comparison(const std::vector<Part>& parts) {
  std::map<std::pair<std::string, std::string>, std::array<std::int64_t, 2>> bytes;
  for (std::size_t side = 0; side < 2; ++side) {
    for (const CommStep& s : parts[side].plan->steps()) bytes[{pictures::where(s), s.op}][side] += total_bytes(s);
  }
  using Row = std::pair<std::pair<std::string, std::string>, std::array<std::int64_t, 2>>;
  std::vector<Row> rows(bytes.begin(), bytes.end());
  std::ranges::stable_sort(rows, std::greater{}, [](const Row& r) { return std::abs(r.second[1] - r.second[0]); });
  const auto change = [](std::int64_t before, std::int64_t after) {
    const std::int64_t d = after - before;
    const char* kind = d < 0 ? "less" : d > 0 ? "more" : "same";
    const std::string note = before == 0 ? " new" : after == 0 ? " gone" : "";
    return str("<td class=\"n ", kind, "\" data-sort=\"", d, "\">", d > 0 ? "+" : "", grouped(d), d == 0 ? "" : note,
               "</td>");
  };
  std::string out =
      "<section><h2>What has changed</h2>\n<div class=\"scroll\"><table "
      "class=\"changes\"><thead><tr><th>line</th><th>collective</th><th class=\"n\">bytes before</th><th "
      "class=\"n\">bytes after</th><th class=\"n\">change</th></tr></thead><tbody>\n";
  for (const Row& r : rows) {
    out += str("<tr data-op=\"", escaped(r.first.second), "\"><td>", escaped(r.first.first), "</td><td><i class=\"op-",
               escaped(r.first.second), "\"></i>", escaped(r.first.second), "</td>", cell(r.second[0]),
               cell(r.second[1]), change(r.second[0], r.second[1]), "</tr>\n");
  }
  const std::int64_t before = parts[0].plan->bytes_per_device();
  const std::int64_t after = parts[1].plan->bytes_per_device();
  return out + str("</tbody><tfoot><tr><td>total</td><td></td>", cell(before), cell(after), change(before, after),
                   "</tr></tfoot></table></div></section>\n");
}

}  // namespace

std::string to_html(const CommPlan& plan, const PlanPageOptions& o) {
  const std::vector<Part> parts{{"", "a", &plan, pictures::lines_of(plan)}};
  return page(o.title, cards(parts[0], o) + mesh_section(o) + switches(parts) + plan_sections(parts[0], o));
}

std::string to_html(const CommPlan& before, const CommPlan& after, const PlanPageOptions& o) {
  const std::vector<Part> parts{{"before", "a", &before, pictures::lines_of(before)},
                                {"after", "b", &after, pictures::lines_of(after)}};
  std::string body = "<div class=\"pair\"><div><h2>Before</h2>\n" + cards(parts[0], o) + "</div><div><h2>After</h2>\n" +
                     cards(parts[1], o) + "</div></div>\n";
  body += switches(parts) + comparison(parts) + mesh_section(o);
  for (const Part& p : {parts[1], parts[0]}) body += plan_sections(p, o);
  return page(o.title, body);
}

}  // namespace tessera
