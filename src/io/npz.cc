// SPDX-License-Identifier: Apache-2.0
// NumPy's .npz: a ZIP archive of .npy members, read and written by libzip.
#include <zip.h>

#include <cstdio>
#include <memory>

#include "base/strings.h"
#include "io/file.h"
#include "tessera/io.h"

namespace tessera {

namespace io {
std::string npy_bytes(const HostArray& value);
}

namespace {

// ZIP compresses at most about 1032 : 1, so a member that claims more is a lie.
constexpr std::uint64_t kMaxRatio = 1100;

struct Closer {
  void operator()(zip_t* z) const { zip_discard(z); }
  void operator()(zip_file_t* f) const { zip_fclose(f); }
};

[[noreturn]] void bad_npz(const std::string& name, const std::string& what) {
  throw FormatError(str("load_npz: \"", name, "\" is no .npz file: ", what), name);
}

std::string error_text(zip_error_t* e) {
  std::string text = zip_error_strerror(e);
  zip_error_fini(e);
  return text;
}

}  // namespace

HostArrays parse_npz(const std::string& bytes, const std::string& name) {
  if (bytes.size() < 22)
    bad_npz(name, str("it has ", bytes.size(), " bytes; expected at least 22"));  // libzip takes nothing for new
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (!source) bad_npz(name, error_text(&error));
  std::unique_ptr<zip_t, Closer> archive(zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (!archive) {
    zip_source_free(source);  // else the archive owns it
    bad_npz(name, error_text(&error));
  }
  HostArrays out;
  zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &stat) != 0 || !(stat.valid & ZIP_STAT_NAME) ||
        !(stat.valid & ZIP_STAT_SIZE)) {
      bad_npz(name, str("member ", static_cast<std::int64_t>(i), " has no name or size"));
    }
    std::string member = stat.name;
    if (stat.size / kMaxRatio > bytes.size())
      bad_npz(name, str("member \"", member, "\" claims ", static_cast<std::uint64_t>(stat.size), " bytes"));
    std::unique_ptr<zip_file_t, Closer> file(zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(i), 0));
    if (!file) bad_npz(name, str("member \"", member, "\": ", zip_strerror(archive.get())));
    std::string data(stat.size, '\0');
    zip_int64_t got = zip_fread(file.get(), data.data(), data.size());
    if (got < 0 || static_cast<std::uint64_t>(got) != stat.size)
      bad_npz(name, str("member \"", member, "\" cannot be read: ", zip_file_strerror(file.get())));
    HostArray value = parse_npy(data, str(name, ":", member));
    if (member.ends_with(".npy")) member.resize(member.size() - 4);
    out[member] = std::move(value);
  }
  return out;
}

HostArrays load_npz(const std::string& path) { return parse_npz(io::read_file("load_npz", path), path); }

void save_npz(const std::string& path, const HostArrays& values) {
  std::string fresh = path + ".part";
  int code = 0;
  std::unique_ptr<zip_t, Closer> archive(zip_open(fresh.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (!archive) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    throw ValueError(str("save_npz: cannot write \"", path, "\": ", error_text(&error)));
  }
  std::vector<std::string> members;  // libzip reads them when the archive closes
  members.reserve(values.size());
  for (const auto& [name, value] : values) {
    members.push_back(io::npy_bytes(value));
    zip_source_t* source = zip_source_buffer(archive.get(), members.back().data(), members.back().size(), 0);
    zip_int64_t index =
        source ? zip_file_add(archive.get(), (name + ".npy").c_str(), source, ZIP_FL_OVERWRITE | ZIP_FL_ENC_UTF_8) : -1;
    if (index < 0) {
      if (source) zip_source_free(source);
      throw ValueError(str("save_npz: cannot add \"", name, "\" to \"", path, "\": ", zip_strerror(archive.get())));
    }
    zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  zip_t* raw = archive.release();
  if (zip_close(raw) != 0) {
    std::string why = zip_strerror(raw);
    zip_discard(raw);
    throw ValueError(str("save_npz: cannot write \"", path, "\": ", why));
  }
  if (values.empty()) {
    // libzip writes no file for an empty archive; this is the empty archive's only record.
    static const char end[22] = {'P', 'K', 5, 6};
    io::write_file("save_npz", fresh, std::string(end, sizeof end));
  }
  if (std::rename(fresh.c_str(), path.c_str()) != 0) {
    std::remove(fresh.c_str());
    throw ValueError(str("save_npz: cannot replace \"", path, "\""));
  }
}

}  // namespace tessera
