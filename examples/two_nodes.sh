#!/bin/sh
# Train on two machines. Run this on both at about the same time; FIRST is a name or address of either of them.
#
#   FIRST=10.0.0.1 sh examples/two_nodes.sh recipe.yaml /shared/runs/mine [--resume]
#
# The folder of the run and the data must lie where both machines see them: processes write one checkpoint together.
set -eu
: "${FIRST:?set FIRST to the name or address of one of the machines}"
PROCESSES=${PROCESSES:-$(nvidia-smi --list-gpus | wc -l)} # on each machine
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
recipe=$1 folder=$2
shift 2
exec torchrun --nnodes "${NODES:-2}" --nproc-per-node "$PROCESSES" \
  --rdzv-backend c10d --rdzv-endpoint "$FIRST:29500" --rdzv-id "$(basename "$folder")" \
  -m clearhead train run "$recipe" --out "$folder" "$@"
