// SPDX-License-Identifier: Apache-2.0
// Everything.
#pragma once

#include "tessera/array.h"
#include "tessera/comm_plan.h"
#include "tessera/config.h"
#include "tessera/device.h"
#include "tessera/dtype.h"
#include "tessera/error.h"
#include "tessera/grad.h"
#include "tessera/host_array.h"
#include "tessera/io.h"
#include "tessera/jit.h"
#include "tessera/lax.h"
#include "tessera/mesh.h"
#include "tessera/numpy.h"
#include "tessera/operand.h"
#include "tessera/ops.h"
#include "tessera/partition_spec.h"
#include "tessera/shape.h"
#include "tessera/sharding.h"
#include "tessera/tree.h"
#include "tessera/visualize.h"
