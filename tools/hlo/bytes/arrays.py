# SPDX-License-Identifier: Apache-2.0
"""Programs of one array operation each: ordering, cumulation, indexing, moving, windows, products.

The operand is mostly float32 [1024, 1024] over x and y of a 4x2 mesh, of which a device holds [256, 512], SHARD bytes.
"""
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from collectives import all_gather, all_reduce, all_to_all, reduce_scatter
from program import Arg, program

XY = P("x", "y")
ALL = P(("x", "y"))
SQUARE = Arg((1024, 1024), XY)
LONG = Arg((1 << 20,), ALL)
COLUMNS = 512  # of a device
SHARD = 256 * COLUMNS * 4
LONG_SHARD = (1 << 20) // 8 * 4
EDGES = (2 * COLUMNS + 256) * 4  # of a block that has neighbours above, below and on one side

# Ordering and arg-reductions

PAIRS = "an all-reduce of a value and an index for each column"


@program("argmax", "ordering", SQUARE, out=P("y"), bound=all_reduce(8 * COLUMNS, 4), why=PAIRS)
def _(x):
    return jnp.argmax(x, 0)


@program("argmax-all", "ordering", SQUARE, out=P(), bound=all_reduce(8, 8), why="an all-reduce of a value and an index")
def _(x):
    return jnp.argmax(x)


@program("argmin-and-min", "ordering", SQUARE, out=(P("y"), P("y")), bound=all_reduce(8 * COLUMNS, 4), why=PAIRS)
def _(x):
    return jnp.argmin(x, 0), jnp.min(x, 0)


@program("sort", "ordering", SQUARE, out=XY, bound=SHARD, why="n/p elements of each column")
def _(x):
    return jnp.sort(x, 0)


@program("sort-1d", "ordering", LONG, out=ALL, bound=LONG_SHARD, why="n/p elements")
def _(x):
    return jnp.sort(x)


@program("argsort", "ordering", SQUARE, out=XY, bound=SHARD, why="n/p indices of each column")
def _(x):
    return jnp.argsort(x, 0)


@program("sort-multi-operand", "ordering", Arg((1024, 1024), XY, "ints", 64), SQUARE, SQUARE, out=(XY, XY, XY), bound=3 * SHARD,
         why="n/p elements of each column of three operands")
def _(k, a, b):
    return lax.sort((k, a, b), dimension=0, num_keys=2)


@program("median", "ordering", SQUARE, out=P("y"), bound=32 * all_reduce(4 * COLUMNS, 4),
         why="a bisection over 32 bits: an all-reduce of a count for each column and bit")
def _(x):
    return jnp.median(x, 0)


@program("top_k", "ordering", SQUARE, out=(P("x"), P("x")), bound=all_gather(16 * 8 * 256, 2),
         why="k values and indices of each device of the row")
def _(x):
    return tuple(lax.top_k(x, 16))


@program("top_k-1d", "ordering", LONG, out=(P(), P()), bound=all_gather(64 * 8, 8), why="k values and indices of each device")
def _(x):
    return tuple(lax.top_k(x, 64))


@program("unique", "ordering", Arg((1 << 14,), ALL, "ints", 1024), out=P(), bound=all_gather(1024 * 4, 8),
         why="each device's distinct values, 1024 at most")
def _(x):
    return jnp.unique(x, size=1024, fill_value=-1)


@program("searchsorted", "ordering", Arg((1 << 18,), P("x"), "sorted"), Arg((1 << 16,), P("y"), "uniform"), out=P("y"), loop=19,
         bound=all_reduce((1 << 15) * 4, 4), why="an all-reduce of how many of a device's elements are smaller")
def _(x, v):
    return jnp.searchsorted(x, v)


@program("histogram", "ordering", Arg((1 << 20,), ALL, "uniform"), out=P(), bound=all_reduce(256 * 4, 8),
         why="an all-reduce of the counts")
def _(x):
    return jnp.histogram(x, 256, (0.0, 1.0))[0]


# Cumulation

BEFORE = "one number of each column and block"


@program("cumsum", "cumulation", SQUARE, out=XY, bound=all_gather(4 * COLUMNS, 4), why=BEFORE)
def _(x):
    return jnp.cumsum(x, 0)


@program("cummax", "cumulation", SQUARE, out=XY, bound=all_gather(4 * COLUMNS, 4), why=BEFORE)
def _(x):
    return lax.cummax(x, 0)


@program("cumlogsumexp", "cumulation", Arg((64, 1024), XY), out=XY, bound=all_gather(4 * COLUMNS, 4), why=BEFORE)
def _(x):
    return lax.cumlogsumexp(x, 0)


@program("cumsum-gradient", "cumulation", SQUARE, SQUARE, out=XY, bound=all_gather(4 * COLUMNS, 4), why=BEFORE)
def _(x, g):
    return jax.vjp(lambda x: jnp.cumsum(x, 0), x)[1](g)[0]


@program("associative_scan", "cumulation", Arg((1024, 1024), XY, "uniform"), SQUARE, out=XY, bound=all_gather(8 * COLUMNS, 4),
         why="two numbers of each column and block")
def _(a, b):
    return lax.associative_scan(lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]), (a, b))[1]


# Indexing

@program("gather-rows", "indexing", Arg((8192, 256), P("x")), Arg((4096,), P("y"), "ints", 8192), out=P("y"),
         bound=all_reduce(2048 * 256 * 4, 4), why="an all-reduce of the rows that each device has")
def _(table, i):
    return table[i]


@program("lookup", "indexing", Arg((32768, 256), P(("x", "y"))), Arg((4096,), P(("x", "y")), "ints", 32768),
         out=P(("x", "y")), bound=512 * 256 * 4, why="a device's rows, wherever they are")
def _(table, i):
    return table[i]


@program("embedding-gradient", "indexing", Arg((1024, 512), P()), Arg((4096,), P("x"), "ints", 1024), Arg((4096, 512), P("x")),
         out=P(), bound=all_reduce(1024 * 512 * 4, 4), why="an all-reduce of the gradient")
def _(table, i, g):
    return jax.vjp(lambda t: t[i], table)[1](g)[0]


@program("embedding-gradient-split", "indexing", Arg((4096, 512), P("x")), Arg((4096,), P("x"), "ints", 4096),
         Arg((4096, 512), P("x")), out=P("x"), bound=1024 * 512 * 4, why="n/p updates, each to the owner of its row")
def _(table, i, g):
    return jax.vjp(lambda t: t[i], table)[1](g)[0]


@program("segment_sum", "indexing", Arg((1 << 18,), P("x")), Arg((1 << 18,), P("x"), "ints", 4096), out=P(),
         bound=all_reduce(4096 * 4, 4), why="an all-reduce of the sums")
def _(x, segments):
    return jax.ops.segment_sum(x, segments, 4096)


@program("scatter-add", "indexing", SQUARE, Arg((256,), P("x"), "ints", 1024), Arg((256, 1024), P("x", "y")), out=XY,
         bound=all_gather(64 * (COLUMNS + 1) * 4, 4), why="the updates and indices of the other devices")
def _(x, i, u):
    return x.at[i].add(u)


@program("take_along_axis", "indexing", SQUARE, Arg((16, 1024), P(None, "y"), "ints", 1024), out=P(None, "y"),
         bound=all_reduce(16 * COLUMNS * 4, 4), why="an all-reduce of the elements that each device has")
def _(x, i):
    return jnp.take_along_axis(x, i, 0)


@program("one_hot", "indexing", Arg((8192, 256), P("x")), Arg((4096,), P("y"), "ints", 8192), out=P("y"),
         bound=all_reduce(2048 * 256 * 4, 4), why="an all-reduce of the products")
def _(table, i):
    return jax.nn.one_hot(i, 8192, dtype=jnp.float32) @ table


@program("dynamic_slice", "indexing", SQUARE, Arg((), P(), "ints", 512), out=XY, bound=SHARD // 2,
         why="a device's block of the result")
def _(x, i):
    return lax.dynamic_slice_in_dim(x, i, 512, 0)


@program("dynamic_update_slice", "indexing", SQUARE, Arg((256, 1024), XY), Arg((), P(), "ints", 512), out=XY,
         bound=all_gather(64 * COLUMNS * 4, 4), why="a block of the operand may hold the whole update")
def _(x, u, i):
    return lax.dynamic_update_slice_in_dim(x, u, i, 0)


# Moving

@program("transpose", "moving", SQUARE, out=XY, bound=SHARD, why="a device's block, where it has none of it")
def _(x):
    return x.T


@program("reverse", "moving", SQUARE, out=XY, bound=SHARD, why="the opposite block")
def _(x):
    return x[::-1]


@program("roll", "moving", SQUARE, out=XY, bound=3 * COLUMNS * 4, why="three rows of the neighbour")
def _(x):
    return jnp.roll(x, 3, 0)


@program("concatenate", "moving", Arg((512, 1024), XY), Arg((512, 1024), XY), out=XY, bound=SHARD,
         why="a block of the result, where a device has none of it")
def _(a, b):
    return jnp.concatenate([a, b])


@program("pad", "moving", SQUARE, out=XY, bound=2 * 256 * COLUMNS * 4,
         why="a block of the result, where a device has none of it")
def _(x):
    return jnp.pad(x, ((1024, 0), (0, 0)))


@program("stencil-of-slices", "moving", SQUARE, out=XY, bound=EDGES, why="edges of the neighbours")
def _(x):
    return jnp.pad(x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1], 1)


# Windows

IMAGES = Arg((8, 128, 128, 16), P(None, "x", "y"))
KERNEL = Arg((3, 3, 16, 16), P(), scale=0.1)
IMAGE_EDGES = (2 * 64 + 32 + 2) * 8 * 16 * 4
ROWS_AND_COLUMN = "rows above and below, a column beside, and their corners"


def convolution(x, k):
    return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@program("convolution", "windows", IMAGES, KERNEL, out=P(None, "x", "y"), bound=IMAGE_EDGES, why=ROWS_AND_COLUMN)
def _(x, k):
    return convolution(x, k)


@program("convolution-gradients", "windows", IMAGES, KERNEL, IMAGES, out=(P(None, "x", "y"), P()),
         bound=2 * IMAGE_EDGES + all_reduce(9 * 16 * 16 * 4, 8),
         why="edges of the image and of the cotangent, an all-reduce of the kernel's gradient")
def _(x, k, g):
    return jax.vjp(convolution, x, k)[1](g)


@program("reduce_window", "windows", IMAGES, out=P(None, "x", "y"), bound=IMAGE_EDGES, why=ROWS_AND_COLUMN)
def _(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")


@program("reduce_window-gradient", "windows", IMAGES, IMAGES, out=P(None, "x", "y"), bound=3 * IMAGE_EDGES,
         why="edges of the image two deep and of the cotangent")
def _(x, g):
    return jax.vjp(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"), x)[1](g)[0]


# Products and reductions

@program("matmul-contraction", "products", Arg((1024, 1024), P(None, "x")), Arg((1024, 1024), P("x")), out=P(),
         bound=all_reduce(1024 * 1024 * 4, 4), why="an all-reduce of the product")
def _(a, b):
    return a @ b


@program("matmul-contraction-scattered", "products", Arg((1024, 1024), P(None, "x")), Arg((1024, 1024), P("x")), out=P("x"),
         bound=reduce_scatter(256 * 1024 * 4, 4), why="a reduce-scatter of the product")
def _(a, b):
    return a @ b


@program("matmul-2d", "products", SQUARE, SQUARE, out=XY, bound=all_gather(SHARD, 2) + all_gather(SHARD, 4),
         why="SUMMA: a row of blocks of one operand and a column of the other")
def _(a, b):
    return a @ b


@program("matmul-rows", "products", Arg((1024, 1024), P("x")), Arg((1024, 1024), P("x")), out=P("x"),
         bound=all_gather(256 * 1024 * 4, 4), why="the rows of the second operand that a device has not")
def _(a, b):
    return a @ b


@program("matmul-transposed", "products", SQUARE, out=XY, bound=all_gather(SHARD, 4) + reduce_scatter(SHARD, 2),
         why="a column of blocks, and half of the products' sums")
def _(a):
    return a @ a.T


@program("reductions", "products", SQUARE, out=(P("y"), P("x"), P()),
         bound=all_reduce(COLUMNS * 4, 4) + all_reduce(256 * 4, 2) + all_reduce(4, 8), why="an all-reduce of each result")
def _(x):
    return jnp.sum(x, 0), jnp.max(x, 1), jnp.mean(x * x)


@program("softmax", "products", SQUARE, out=XY, bound=2 * all_reduce(256 * 4, 2),
         why="an all-reduce of a maximum and of a sum for each row")
def _(x):
    return jax.nn.softmax(x, -1)
