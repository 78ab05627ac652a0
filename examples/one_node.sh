#!/bin/sh
# Train on all GPUs of one machine. The recipe is the same as for one; every process reads its own rows of each batch,
# so that losses and weights are those of one process, to rounding.
#
#   sh examples/one_node.sh recipe.yaml runs/mine            begin
#   sh examples/one_node.sh recipe.yaml runs/mine --resume   go on, also with another number of processes
#
# In the recipe: `device: cuda`, and `spread: fsdp` where weights, gradients and moments do not fit on each GPU.
# Without GPUs: PROCESSES=2 sh examples/one_node.sh ...
set -eu
PROCESSES=${PROCESSES:-$(nvidia-smi --list-gpus | wc -l)}
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
recipe=$1 folder=$2
shift 2
exec torchrun --standalone --nproc-per-node "$PROCESSES" -m clearhead train run "$recipe" --out "$folder" "$@"
