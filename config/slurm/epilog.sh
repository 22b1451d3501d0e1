#!/bin/sh
# Epilog of slurmd: takes the job off the GPUs that prolog.sh put it on, and tells its user what it did
# with them. RIGHTSIZER_JOB_REPORT says where to:
#   output  at the end of the job's own output (as shipped)
#   mail    to the job's user, with mail(1)
#   log     into the system's log
#   none    nowhere
#
# It always succeeds, and within 20 seconds: an epilog that fails drains its node, and one that hangs
# keeps the GPUs from the next job. RIGHTSIZER_LOCK_SECONDS, RIGHTSIZER_REPORT_SECONDS and
# RIGHTSIZER_DELIVERY_SECONDS bound its steps.

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
folder=${RIGHTSIZER_JOB_MAP:-/run/rightsizer-jobs}
rightsizer=${RIGHTSIZER_COMMAND:-rightsizer}
configuration=${RIGHTSIZER_CONFIGURATION:-/etc/rightsizer/rightsizer.yaml}
destination=${RIGHTSIZER_JOB_REPORT:-output}
job=${SLURM_JOB_ID:-}
user=${SLURM_JOB_USER:-}
lock_seconds=${RIGHTSIZER_LOCK_SECONDS:-4}
report_seconds=${RIGHTSIZER_REPORT_SECONDS:-9}
delivery_seconds=${RIGHTSIZER_DELIVERY_SECONDS:-4}
# The agent is another user, and reads what stays.
umask 022

case $job in
'' | *[!0-9]*) exit 0 ;;
esac

# What belongs to the user is written as the user: root would follow any link.
as_user() {
    if [ "$(id -u)" -eq 0 ]; then
        runuser -u "$user" -- "$@"
    else
        "$@"
    fi
}

forget() {
    [ -d "$folder" ] || return 0
    (
        flock -w "$lock_seconds" 9 || exit 0
        for file in "$folder"/*; do
            grep -qxF -- "$job" "$file" 2>/dev/null || continue
            if grep -vxF -- "$job" "$file" >"$folder/.rest"; then
                mv -f "$folder/.rest" "$file"
            else
                rm -f "$file" "$folder/.rest"
            fi
        done
    ) 9>"$folder/.lock"
}

report() {
    set -- job-report "$job"
    [ -r "$configuration" ] && set -- "$@" --config.file "$configuration"
    # A job without GPUs has no report.
    text=$(timeout -k 1 "$report_seconds" "$rightsizer" "$@" 2>/dev/null) || return 0
    # A write to a file system that is away cannot be killed: it is left behind.
    deliver "$text" >/dev/null 2>&1 &
    looks=$((delivery_seconds * 5))
    while kill -0 $! 2>/dev/null && [ "$looks" -gt 0 ]; do
        sleep 0.2
        looks=$((looks - 1))
    done
    kill $! 2>/dev/null
}

deliver() {
    case $destination in
    output)
        # Interactive jobs have no such file. The quotes are for the shell that the user's rights get.
        # shellcheck disable=SC2016
        printf '\n%s\n' "$1" |
            as_user timeout -k 1 "$delivery_seconds" \
                sh -c '[ -f "$1" ] && exec cat >>"$1"' sh "${SLURM_JOB_STDOUT:-}"
        ;;
    mail)
        printf '%s\n' "$1" | timeout -k 1 "$delivery_seconds" mail -s "GPU use of job $job" "$user"
        ;;
    log) printf '%s\n' "$1" | timeout -k 1 "$delivery_seconds" logger -t rightsizer-job ;;
    esac
}

# The map first: a report that is slow must not keep a GPU in the job's name.
forget
[ "$destination" = none ] || report
exit 0
