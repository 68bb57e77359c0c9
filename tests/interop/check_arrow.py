#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Apache Arrow between Tessera and pyarrow in one process, and Polars where it is installed.

usage: check_arrow.py LIBRARY    (build/interop/libtessera_arrow_module.so)
"""
import ctypes
import gc
import importlib.util
import math
import pathlib
import sys
import tempfile

try:
    import pyarrow as pa
    import pyarrow.parquet as parquet
except ImportError:
    print("arrow: left out, this Python has no pyarrow")
    sys.exit(0)

pythonapi = ctypes.pythonapi
pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
pythonapi.PyCapsule_New.restype = ctypes.py_object
pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Given:
    """A column of Tessera's, as Python libraries take it: room for an ArrowArray and an ArrowSchema."""

    def __init__(self):
        self.array = ctypes.create_string_buffer(80)
        self.schema = ctypes.create_string_buffer(72)

    def __arrow_c_array__(self, requested_schema=None):
        return (pythonapi.PyCapsule_New(ctypes.addressof(self.schema), b"arrow_schema", None),
                pythonapi.PyCapsule_New(ctypes.addressof(self.array), b"arrow_array", None))


class Library:
    def __init__(self, path: str):
        self.lib = ctypes.CDLL(path)
        self.lib.arrow_error.restype = ctypes.c_char_p
        pointer = ctypes.c_void_p
        self.lib.arrow_through.argtypes = [pointer, pointer, ctypes.c_int, ctypes.c_double, pointer, pointer]
        self.lib.arrow_stream_through.argtypes = [pointer, ctypes.c_int, pointer, pointer]
        self.lib.arrow_table_through.argtypes = [pointer, ctypes.c_int, ctypes.c_char_p, pointer, pointer]

    def call(self, function, *args) -> Given:
        out = Given()
        function(*args, out.array, out.schema)
        if error := self.lib.arrow_error().decode():
            raise ValueError(error)
        return out

    def through(self, array, split=False, null_value=math.nan):
        schema, data = array.__arrow_c_array__()
        get = pythonapi.PyCapsule_GetPointer
        return pa.array(self.call(self.lib.arrow_through, get(data, b"arrow_array"), get(schema, b"arrow_schema"),
                                  int(split), null_value))

    def stream_through(self, chunks, split=False):
        capsule = chunks.__arrow_c_stream__()
        stream = pythonapi.PyCapsule_GetPointer(capsule, b"arrow_array_stream")
        return pa.array(self.call(self.lib.arrow_stream_through, stream, int(split)))

    def table_through(self, table, split=False, names=""):
        capsule = table.__arrow_c_stream__()
        stream = pythonapi.PyCapsule_GetPointer(capsule, b"arrow_array_stream")
        return pa.record_batch(self.call(self.lib.arrow_table_through, stream, int(split), names.encode()))


TYPES = [pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
         pa.float16(), pa.float32(), pa.float64()]


def numbers(kind, n):
    if pa.types.is_boolean(kind):
        return pa.array([i % 3 == 0 for i in range(n)], kind)
    return pa.array(range(n), pa.int32()).cast(kind)


def address(array) -> int:
    return array.buffers()[-1].address


def check_columns(lib: Library) -> int:
    checks = 0
    for kind in TYPES:
        a = numbers(kind, 48)
        lists = pa.FixedSizeListArray.from_arrays(a, 3)
        nested = pa.FixedSizeListArray.from_arrays(lists, 2)
        for b in (a, a[3:19], a[:0], lists, lists[2:10], nested):
            back = lib.through(b)
            assert back.equals(b.cast(back.type)), (kind, b, back)
            assert back.type == b.type or pa.types.is_fixed_size_list(b.type), (back.type, b.type)
            back.validate(full=True)
            if len(b) % 8 == 0:
                assert lib.through(b, split=True).equals(back), (kind, b)
            checks += 1
        if not pa.types.is_boolean(kind):
            assert address(lib.through(a)) == address(a), f"{kind}: the memory is shared both ways"
        with_nulls = pa.concat_arrays([a, pa.nulls(8, kind)])
        filled = lib.through(with_nulls[40:], split=True, null_value=1)
        assert filled.equals(with_nulls[40:].fill_null(pa.scalar(1, pa.int8()).cast(kind))), filled
        checks += 2
    return checks


def check_refusals(lib: Library) -> int:
    refused = [(pa.array(["a"]), "string"), (pa.array([1, None]), "1 null among 2 values"),
               (pa.array(["a", "a"]).dictionary_encode(), "dictionary-encoded"), (pa.array([[1], [2]]), "(list)"),
               (pa.array([0], pa.date32()), "date"), (pa.nulls(3), "null")]
    for array, what in refused:
        try:
            lib.through(array)
        except ValueError as error:
            assert what in str(error), error
        else:
            raise AssertionError(f"taken: {array}")
        assert array.validate(full=True) is None, "what is refused is still pyarrow's"
    return len(refused)


def check_lifetime(lib: Library) -> int:
    before = pa.total_allocated_bytes()
    a = pa.array(range(1 << 16), pa.int32()).cast(pa.float32())
    back = lib.through(a)
    del a
    gc.collect()
    assert pa.total_allocated_bytes() >= before + (1 << 18), "the memory lives as long as somebody reads it"
    assert back[65535].as_py() == 65535
    del back
    gc.collect()
    assert pa.total_allocated_bytes() < before + (1 << 16), "the array was released"
    return 1


def check_streams(lib: Library) -> int:
    chunks = pa.chunked_array([numbers(pa.float64(), 5), numbers(pa.float64(), 0), numbers(pa.float64(), 11)[2:]])
    whole = pa.concat_arrays(chunks.chunks)
    assert lib.stream_through(chunks).equals(whole)
    aligned = pa.chunked_array([numbers(pa.int16(), 5), numbers(pa.int16(), 11)])
    assert lib.stream_through(aligned, split=True).equals(pa.concat_arrays(aligned.chunks))

    # A Parquet file of several row groups, read by Arrow.
    table = pa.table({"id": pa.array(range(64), pa.int64()), "word": [str(i) for i in range(64)],
                      "flag": numbers(pa.bool_(), 64),
                      "point": pa.FixedSizeListArray.from_arrays(numbers(pa.float32(), 128), 2)})
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "table.parquet"
        parquet.write_table(table, path, row_group_size=10)
        wanted = ["flag", "id", "point"]
        for split in (False, True):
            back = lib.table_through(parquet.read_table(path), split, ",".join(wanted))
            assert back.schema.names == wanted
            for name in wanted:
                assert back[name].equals(table[name].combine_chunks().cast(back[name].type)), (split, name)
            with parquet.ParquetFile(path) as file:
                batches = pa.RecordBatchReader.from_batches(
                    table.select(["id"]).schema, file.iter_batches(batch_size=7, columns=["id"]))
                assert lib.table_through(batches, split)["id"].equals(table["id"].combine_chunks())
        # Back into a file.
        parquet.write_table(pa.Table.from_batches([back]), path)
        assert parquet.read_table(path)["id"].equals(table["id"])

    def failing():
        yield table.select(["id"]).to_batches()[0]
        raise RuntimeError("the disk is gone")
    try:
        lib.table_through(pa.RecordBatchReader.from_batches(table.select(["id"]).schema, failing()))
    except ValueError as error:
        assert "the disk is gone" in str(error), error
    else:
        raise AssertionError("a stream that fails was taken")
    return 8


def check_polars(lib: Library) -> int:
    import polars as pl
    frame = pl.DataFrame({"a": list(range(16)), "b": [i / 2 for i in range(16)]})
    for split in (False, True):
        back = lib.table_through(frame, split)
        assert pl.DataFrame(back).equals(frame)
        assert lib.stream_through(frame["b"], split).to_pylist() == frame["b"].to_list()
    return 4


def main() -> int:
    lib = Library(sys.argv[1])
    done = {"pyarrow": check_columns(lib) + check_refusals(lib) + check_lifetime(lib) + check_streams(lib)}
    if importlib.util.find_spec("polars"):
        done["Polars"] = check_polars(lib)
    print("arrow: " + ", ".join(f"{n} cases with {name}" for name, n in done.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
