#!/bin/sh
# Train on a cluster: sbatch examples/slurm.sh recipe.yaml /shared/runs/mine
#
# Slurm sends SIGTERM two minutes before the time is up: the step ends, is saved, and the job asks for its own
# continuation. --resume begins where there is nothing yet, and changes nothing where the run is finished.
#SBATCH --job-name=clearhead
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120
#SBATCH --open-mode=append
set -eu
recipe=$1 folder=$2
FIRST=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
srun torchrun --nnodes "$SLURM_JOB_NUM_NODES" --nproc-per-node "$SLURM_GPUS_ON_NODE" \
  --rdzv-backend c10d --rdzv-endpoint "$FIRST:29500" --rdzv-id "$SLURM_JOB_ID" \
  -m clearhead train run "$recipe" --out "$folder" --resume || true
test -e "$folder/report.json" || sbatch "$0" "$recipe" "$folder"
