# SPDX-License-Identifier: Apache-2.0
"""Where the PJRT plugin lies: in this package, or where TESSERA_PJRT_LIBRARY says."""
import os
import pathlib


def path() -> str:
    """Path of libtessera_pjrt.so. Raises `ImportError` saying where it was looked for."""
    named = os.environ.get("TESSERA_PJRT_LIBRARY")
    file = pathlib.Path(named) if named else pathlib.Path(__file__).parent / "libtessera_pjrt.so"
    if not file.is_file():
        where = f"TESSERA_PJRT_LIBRARY = {named}" if named else str(file)
        raise ImportError(f"tessera: there is no PJRT plugin at {where}; install the package again, or build the "
                          "library with `make plugin` and name build/plugin/libtessera_pjrt.so in TESSERA_PJRT_LIBRARY")
    return str(file)
