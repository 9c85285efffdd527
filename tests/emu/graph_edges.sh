# SPDX-License-Identifier: MIT
# graph_edges.sh - the edges of captured graphs are the schedule's, on the CUDA emulator: tests/cuda/graph_edges.c.
# needs: onednn
. "$top_srcdir/tests/emu/env.sh"
SPCORE_EMU_PROTECT=0 "$top_builddir/tests/emu/graph_edges"
