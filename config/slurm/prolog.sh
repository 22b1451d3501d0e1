#!/bin/sh
# Prolog of slurmd: writes down which job was given which GPU, so that a GPU whose job has no process
# on it yet, or no more, is known to be held. The agent reads it with
#   sources: {owners: {job_map_folder: /run/rightsizer-jobs}}
# and dcgm-exporter with --hpc-job-mapping-dir=/run/rightsizer-jobs. Not needed to know whose a process
# is: that the control groups tell.
#
# It always succeeds, and soon: a prolog that fails drains its node, and one that hangs holds the job.
# Where another holds the lock for longer than RIGHTSIZER_LOCK_SECONDS, the job stays off the map.

PATH=/usr/sbin:/usr/bin:/sbin:/bin
folder=${RIGHTSIZER_JOB_MAP:-/run/rightsizer-jobs}
job=${SLURM_JOB_ID:-}
patience=${RIGHTSIZER_LOCK_SECONDS:-4}

case $job in
'' | *[!0-9]*) exit 0 ;;
esac

# Slurm tells MIG instances by uuid, and GPUs by their number on the node.
case ${CUDA_VISIBLE_DEVICES:-} in
*GPU-* | *MIG-*) devices=$CUDA_VISIBLE_DEVICES ;;
*) devices=${SLURM_JOB_GPUS:-${CUDA_VISIBLE_DEVICES:-}} ;;
esac
[ -n "$devices" ] || exit 0

umask 022
mkdir -p "$folder" || exit 0

# Jobs that share a GPU come and go at the same time: each file is changed under one lock.
(
    flock -w "$patience" 9 || exit 0
    IFS=,
    set -f
    for device in $devices; do
        case $device in
        '' | *[!0-9A-Za-z.-]* | .* | -*) continue ;;
        esac
        grep -qxF -- "$job" "$folder/$device" 2>/dev/null || printf '%s\n' "$job" >>"$folder/$device"
    done
) 9>"$folder/.lock"
exit 0
